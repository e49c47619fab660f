/**
 * A random history of one channel whose relay lies: to some or all, in some ways (liar.ts), and by showing two logs, or
 * an old one. Then it is honest again. Until then nobody may crash, be told words that nobody has said, or said by
 * somebody else, or twice, or read words of somebody who has seen another log without being told of a fork; then those
 * whose channel has not ended with an error, and who were not told of a fork, agree.
 */
import { toHex } from '@static/protocol'
import type { World } from '@static/testkit/world'
import type { RelayDisk } from '@static/testkit/world/disk'
import type { SimulatedRelay } from '@static/testkit/world/relay'
import { ACCOUNT, Cast, NAME } from './cast.ts'
import { PAUSES } from './history.ts'
import { Liar } from './liar.ts'
import { Logs } from './logs.ts'
import type { Person } from './person.ts'
import { PlainLies } from './plain-lies.ts'

const STRETCHES = 3
const STEPS = 10
const PATIENCE_MS = 1_500_000
const SOON_MS = 1000
/** Longer than an owner waits for requests to join before it asks again. */
const POLL_MS = 60_000
/** How often applications accept forks: each may show another. */
const ROUNDS = 10
/** From which of two logs a relay passes messages on into the other, so that both sides go on talking. */
const BRIDGES: readonly (readonly number[])[] = [[], [0], [1], [0, 1]]
/** A channel that a lying relay has ended ends with one of these. */
const PROPER: ReadonlySet<string> = new Set([
  'mls_error',
  'fork_detected',
  'relay_rolled_back',
  'store_rolled_back',
  'removed',
  'not_found',
])

/** The history of one seed. */
export class LyingHistory {
  readonly #world: World
  readonly #stretches: number
  readonly #cast: Cast
  readonly #liar: Liar
  readonly #plain: PlainLies
  /** Shows another log to some. */
  #second: SimulatedRelay | undefined
  /** Who only listens meanwhile: the relay of the other log does not know that it has missed anything. */
  #silent: ReadonlySet<string> = new Set()
  #bridged: readonly number[] = []
  /** What the relay had once. */
  #old: RelayDisk | undefined
  /** Both logs were shown, or one that was taken back. */
  #hasForked = false

  /** With no stretches, the relay tells plain lies only. With `proves`, members prove who they are meanwhile. */
  constructor(
    world: World,
    { stretches = STRETCHES, proves = false }: { readonly stretches?: number; readonly proves?: boolean } = {},
  ) {
    this.#world = world
    this.#stretches = stretches
    this.#cast = new Cast(world, { proves })
    const { network, people } = this.#cast
    // Otherwise it is mostly receipts that show a fork.
    if (world.random() < 0.5) for (const person of people) person.receipts = 'off'
    this.#liar = new Liar(
      world,
      people.map(({ name }) => name),
    )
    network.middle = this.#liar
    this.#plain = new PlainLies(this.#cast, this.#liar)
    const logs = new Logs(this.#cast)
    for (const person of people) {
      person.onRead = (reading) => {
        const fault = isWell(person) ? logs.unnoticed(person, reading) : undefined
        if (fault !== undefined) this.#cast.wrong.push(fault)
      }
    }
    this.#cast.relay.disk.onEntry((disk, channel, entry) => this.#bridge(disk, channel, entry))
  }

  get counts(): Record<string, number> {
    return { ...this.#cast.counts, ...this.#liar.counts }
  }

  async run(): Promise<void> {
    const cast = this.#cast
    await cast.found(PATIENCE_MS)
    await this.#drain()
    await cast.gather(() => this.#drain())
    for (let stretch = 0; stretch < this.#stretches; stretch++) {
      // Honest at first, so that there is something to lie about.
      this.#liar.isLying = stretch > 0
      for (let step = 0; step < STEPS; step++) {
        cast.step([...cast.calls, ...cast.faults, ...(this.#liar.isLying ? this.#lies : [])])
        await this.#world.pass(this.#world.pick(PAUSES) ?? 0)
      }
      await this.#repent()
      if (!(await this.#meet())) break
    }
    for (const person of cast.others) if (isWell(person)) await this.#lieTo(person)
    await this.#replay(this.#world.pick(cast.others))
  }

  get #lies(): readonly (readonly [number, () => void])[] {
    return [
      // A commit in one of two logs ends what can be passed on between them.
      [this.#second ? (this.#bridged.length > 0 ? 300 : 100) : 20, () => this.#talk()],
      [20, () => this.#fork()],
      [2, () => this.#remember()],
      [3, () => this.#rollBack()],
    ]
  }

  /** Two logs differ by what is said in them. */
  #talk(): void {
    for (const person of this.#cast.people.filter(isWell))
      if (!this.#silent.has(person.name) && this.#world.random() < 0.5) this.#cast.send(person)
  }

  /** From now on, some see another log than the others. */
  #fork(): void {
    const { network, people, world } = this.#cast
    if (this.#second) return
    this.#hasForked = true
    this.#second = this.#cast.secondRelay()
    this.#bridged = world.pick(BRIDGES) ?? []
    // One or two of them; in each log that hears nothing of the other, one may speak and one only listens.
    const names = this.#cast.shuffled(people.map(({ name }) => name))
    const apart = new Set(names.slice(0, 1 + world.below(2)))
    this.#silent = new Set(this.#bridged.length > 0 ? [] : [names[0] ?? '', names[2] ?? ''])
    world.tell(`the relay shows another log to ${[...apart].join(', ')}, and passes on from ${this.#bridged.join()}`)
    this.#cast.count('forked')
    network.doorOf = ({ name }) => (apart.has(name) ? 1 : 0)
    for (const { name, machine } of people) if (apart.has(name)) network.cut(machine)
  }

  /** Passes a message on into the log that its sender does not see. */
  #bridge(disk: RelayDisk, channel: string, entry: ReturnType<RelayDisk['log']>[number]): void {
    const { people, network, relay } = this.#cast
    const second = this.#second?.disk
    const sender = people.find(({ agentId }) => agentId === entry.sender)
    if (!second || !sender || entry.kind !== 'message') return
    const door = disk === second ? 1 : 0
    if (network.doorOf(sender.machine) !== door || !this.#bridged.includes(door)) return
    this.#cast.count('bridged')
    const other = door === 1 ? relay.disk : second
    other.pass(channel, entry, sender.account === undefined ? undefined : ACCOUNT)
  }

  #remember(): void {
    this.#old = this.#cast.relay.disk.copy()
  }

  #rollBack(): void {
    if (!this.#old) return
    this.#hasForked = true
    this.#cast.count('rolled back')
    this.#cast.relay.rollBack(this.#old)
  }

  /** The relay is honest again: all see one log, in new sessions. */
  async #repent(): Promise<void> {
    const { network, relay } = this.#cast
    this.#world.tell('the relay is honest')
    this.#liar.repent()
    await this.#cast.recover(PATIENCE_MS)
    network.doorOf = () => 0
    // Any of both logs may be the one that stays.
    if (this.#second && this.#world.random() < 0.5) relay.rollBack(this.#second.disk)
    else relay.restart()
    this.#second?.machine.kill('for good')
    this.#second = undefined
    this.#silent = new Set()
    this.#old = undefined
    await this.#drain()
  }

  /** Every call ends, except what waits for an application to accept a fork. */
  async #drain(): Promise<void> {
    const { doing, people, wrong } = this.#cast
    const open = (): string[] => [...doing].flatMap(([call, person]) => (isForked(person) ? [] : [call]))
    const why = (): string => `It does not come to an end: ${open().join(', ')}\n${wrong.join('\n')}`
    await this.#world.until(() => open().length === 0, PATIENCE_MS, why)
    for (const person of people) person.look()
  }

  /** Applications go on although they were told of a fork: what has waited for it ends. */
  async #accept(): Promise<void> {
    const { people } = this.#cast
    for (let round = 0; round < ROUNDS && people.some(isForked); round++) {
      for (const person of people.filter(isForked)) {
        const { client } = person.manager ?? {}
        person.machine.do(() => client?.channel(NAME).acceptFork())
      }
      await this.#drain()
      await this.#world.pass(SOON_MS)
    }
  }

  /** Everybody who can says something; whoever was shown another log notices. Returns whether they can go on together. */
  async #meet(): Promise<boolean> {
    const { owner, others, people } = this.#cast
    for (let round = 0; round < 2; round++) {
      for (const person of people) if (isWell(person)) this.#cast.send(person)
      await this.#drain()
      await this.#world.pass(SOON_MS)
    }
    const end = this.#world.now + PATIENCE_MS
    for (let wait = SOON_MS; this.#disagreement !== undefined; wait *= 1.5) {
      if (this.#world.now > end) throw new Error(`${this.#disagreement}\n${this.#cast.wrong.join('\n')}`)
      await this.#world.pass(Math.round(wait))
      for (const person of people) person.look()
    }
    this.#check()
    this.#world.tell('they have met')
    if (people.some(isForked)) {
      await this.#accept()
      this.#check()
      return false
    }
    if (!isWell(owner)) return false
    for (const person of others) if (person.recordOf(NAME)?.broken !== undefined) this.#cast.leave(person)
    await this.#drain()
    return true
  }

  /** A lie that somebody must notice who has noticed nothing so far. */
  async #lieTo(victim: Person): Promise<void> {
    const lie = this.#plain.tell(victim)
    if (!lie) return
    await this.#drain()
    await this.#world.pass(SOON_MS)
    if (!lie.isTold()) return
    this.#cast.count(lie.kind)
    if (isWell(victim)) this.#cast.wrong.push(`${victim.name} does not notice ${lie.about}`)
    this.#check()
  }

  /** Somebody joins and leaves; then its request to join comes again, twice. */
  async #replay(person: Person | undefined): Promise<void> {
    const { owner } = this.#cast
    if (!person || !isWell(owner)) return
    await this.#leave(person)
    const admit = this.#world.random() < 0.5 ? 'owner' : 'members'
    await this.#cast.gather(() => this.#drain(), [person], { maxUses: 2, admit })
    if (!isWell(person)) return
    await this.#leave(person)
    for (const when of ['at once', 'after a restart']) {
      if (when === 'after a restart') {
        owner.machine.kill(when)
        await this.#cast.recover(PATIENCE_MS)
        await this.#drain()
      }
      const lie = this.#plain.replay(person)
      if (!lie) return
      await this.#world.pass(POLL_MS)
      if (!lie.isTold()) return
      this.#cast.count(`${lie.kind}, by ${admit}, ${when}`)
      if (this.#plain.isAdded(person)) this.#cast.wrong.push(`owner does not notice ${lie.about}`)
      this.#check()
    }
  }

  async #leave(person: Person): Promise<void> {
    if (person.recordOf(NAME)) this.#cast.leave(person)
    await this.#drain()
  }

  /** What keeps those from agreeing who have not noticed anything. */
  get #disagreement(): string | undefined {
    const views = new Map<string, string[]>()
    for (const person of this.#cast.people.filter(isWell)) {
      const view = viewOf(person)
      views.set(view, [...(views.get(view) ?? []), person.name])
    }
    if (views.size <= 1) return undefined
    return `They do not agree, and do not know: ${[...views].map(([view, names]) => `${names.join()}: ${view}`).join('; ')}`
  }

  #check(): void {
    const { people, relay, wrong } = this.#cast
    wrong.push(...this.#world.seals.wrong, ...this.#cast.misbelieved())
    for (const person of people) {
      wrong.push(...person.failures, ...this.#misread(person))
      const { broken } = person.recordOf(NAME) ?? {}
      if (broken !== undefined && !PROPER.has(broken)) wrong.push(`${person.name} ends with ${broken}`)
      if (broken !== undefined) this.#cast.count(broken)
      if (isForked(person)) this.#cast.count('noticed')
    }
    // It is asked impossible things by itself.
    if (!this.#hasForked) for (const error of relay.errors) wrong.push(`relay: ${String(error)}`)
    if (wrong.length > 0) throw new Error(wrong.join('\n'))
  }

  #misread({ name, read }: Person): string[] {
    const before = new Set<string>()
    return read.flatMap(({ text, sender, redelivered }) => {
      const isAgain = before.has(text) && !redelivered
      before.add(text)
      if (!this.#cast.said.has(text)) return [`${name} has read ${text}, which nobody has said`]
      if (this.#cast.said.get(text) !== sender) return [`${name} has read ${text} as from ${sender}`]
      return isAgain ? [`${name} has read ${text} twice`] : []
    })
  }
}

/** Whether somebody's application must decide whether to go on. */
function isForked(person: Person): boolean {
  const { state, broken, fork } = person.standing(NAME) ?? {}
  return state === 'joined' && broken === undefined && fork !== undefined
}

/** Whether somebody is in the channel and knows of nothing that is wrong with it. */
function isWell(person: Person): boolean {
  const { state, broken, fork } = person.standing(NAME) ?? {}
  return state === 'joined' && broken === undefined && fork === undefined
}

/** Epoch and log. */
function viewOf(person: Person): string {
  try {
    const { index, hash } = person.history(NAME).position
    return `${person.channel(NAME)?.verify()} ${index} ${toHex(hash)}`
  } catch (error) {
    return String(error)
  }
}
