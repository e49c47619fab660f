/**
 * A random history of one channel with a member that holds its keys and attacks the others (traitor.ts), over crashes.
 * Honest members agree on what was valid, blame nobody else, and are told no words of each other that were not said;
 * nobody is in or out who should not be. An honest relay lets nobody be removed but by the owner. The owner can always
 * remove the traitor, which then reads nothing more, and they go on.
 */
import { toHex } from '@static/protocol'
import type { World } from '@static/testkit/world'
import type { RelayDisk } from '@static/testkit/world/disk'
import { Cast, NAME } from './cast.ts'
import { disagreement } from './checker.ts'
import { PAUSES } from './history.ts'
import type { Person } from './person.ts'
import { Traitor } from './traitor.ts'
import { Witness } from './witness.ts'

type Entry = ReturnType<RelayDisk['log']>[number]

const STRETCHES = 3
const STEPS = 10
const PATIENCE_MS = 1_500_000
const SOON_MS = 1000
/** What one agent may have on disk besides payloads. */
const MOST_STORED_BYTES = 1024 * 1024

/** The history of one seed. */
export class Betrayal {
  readonly #world: World
  readonly #cast: Cast
  readonly #traitor: Traitor

  constructor(world: World) {
    this.#world = world
    this.#cast = new Cast(world, {})
    this.#traitor = new Traitor(world, this.#cast)
    this.#cast.network.middle = new Witness(
      world,
      this.#cast.people.map(({ name }) => name),
    )
    this.#cast.relay.disk.onEntry((disk, channel, entry) => this.#judge(disk.log(channel), entry))
  }

  get counts(): Record<string, number> {
    return this.#cast.counts
  }

  async run(): Promise<void> {
    const cast = this.#cast
    const traitor = this.#traitor
    await cast.found(PATIENCE_MS)
    await this.#drain()
    // Somebody must be there to be removed.
    if (traitor.hasHelp) await cast.gather(() => this.#drain())
    for (let stretch = 0; stretch < STRETCHES; stretch++) {
      if (!traitor.isIn) traitor.join()
      await this.#drain()
      for (let step = 0; step < STEPS; step++) {
        cast.step([...cast.calls, ...cast.faults, [60, () => traitor.attack()]])
        await this.#world.pass(this.#world.pick(PAUSES) ?? 0)
      }
      await cast.recover(PATIENCE_MS)
      await this.#drain()
      // Who has followed a commit that the owner could not read finds out when the owner speaks.
      if (traitor.hasDivided) await this.#talk()
      await this.#agree()
      cast.checkIntents()
      this.#check()
      await this.#restore()
      // Most applications go on with a traitor at first.
      if (stretch === STRETCHES - 1 || this.#world.random() < 0.3) await this.#remove()
    }
  }

  /** The owner removes the traitor, and all say something. */
  async #remove(): Promise<void> {
    const { owner } = this.#cast
    const { agentId } = this.#traitor
    if (this.#traitor.isIn)
      this.#cast.do('owner removes mal', owner, ({ client }) => client.channel(NAME).removeMember(agentId))
    await this.#drain()
    await this.#agree()
    if (this.#traitor.isIn) throw new Error('The traitor is still a member.')
    await this.#talk()
    await this.#agree()
    const words = await this.#traitor.read()
    if (words !== undefined) throw new Error(`The traitor reads on: ${words}`)
    this.#cast.count('expelled')
  }

  /** Everybody who can says something. */
  async #talk(): Promise<void> {
    for (const person of this.#cast.people.filter(isIn)) this.#cast.send(person)
    await this.#drain()
  }

  /** Who was told that it has said something that it has not leaves. */
  async #restore(): Promise<void> {
    const { others } = this.#cast
    const framed = others.filter(({ agentId }) => this.#traitor.framed.has(agentId))
    const isUp = (): boolean => framed.every(({ manager }) => manager !== undefined)
    await this.#world.until(isUp, PATIENCE_MS, () => 'Somebody does not start')
    for (const person of framed) this.#cast.leave(person)
    await this.#drain()
    this.#traitor.framed.clear()
    await this.#agree()
    this.#cast.checkIntents()
  }

  /** An honest relay takes no commit of the traitor that removes somebody who has not left. */
  #judge(log: readonly Entry[], entry: Entry): void {
    const { agentId, hasHelp } = this.#traitor
    if (entry.kind !== 'commit' || entry.sender !== agentId) return
    for (const removed of entry.declaration.removes.map(toHex)) {
      if (hasHelp) {
        this.#cast.count('removals with help')
        continue
      }
      const last = log.findLast((one) =>
        one.kind === 'leave'
          ? one.sender === removed
          : one.kind === 'commit' && one.declaration.adds.some((added) => toHex(added) === removed),
      )
      if (last?.kind !== 'leave') this.#cast.wrong.push(`the relay lets the traitor remove ${removed}`)
    }
  }

  /** Every call ends. Whoever is told of a fork goes on. */
  async #drain(): Promise<void> {
    const { doing, people, wrong } = this.#cast
    const why = (): string => `It does not come to an end: ${[...doing.keys()].join(', ')}\n${wrong.join('\n')}`
    const isDone = (): boolean => {
      for (const person of people) this.#accept(person)
      return doing.size === 0
    }
    await this.#world.until(isDone, PATIENCE_MS, why)
    for (const person of people) person.look()
  }

  /** Only the traitor can have shown a different log. */
  #accept(person: Person): void {
    const { state, broken, fork } = person.standing(NAME) ?? {}
    if (fork === undefined) return
    if (fork !== this.#traitor.agentId && !this.#traitor.framed.has(fork))
      this.#cast.wrong.push(`${person.name} blames ${fork}`)
    const channel = person.channel(NAME)
    if (state === 'joined' && broken === undefined && channel) person.machine.do(() => channel.acceptFork())
  }

  async #agree(): Promise<void> {
    const end = this.#world.now + PATIENCE_MS
    for (let wait = SOON_MS; this.#disagreement !== undefined; wait *= 1.5) {
      if (this.#world.now > end) throw new Error(`${this.#disagreement}\n${this.#cast.wrong.join('\n')}`)
      await this.#world.pass(Math.round(wait))
      for (const person of this.#cast.people) {
        this.#accept(person)
        person.look()
      }
    }
    this.#check()
  }

  get #disagreement(): string | undefined {
    const { owner, people, relay } = this.#cast
    const id = owner.recordOf(NAME)?.id ?? ''
    // Who could not read a commit of the traitor's has stopped, and says so.
    const { hasDivided, framed } = this.#traitor
    const others = people.filter((person) => !(hasDivided && hasStopped(person)) && !framed.has(person.agentId))
    // Its accomplices get no Welcome, and so no place on the roster; and it may say that it leaves in a way that nobody believes.
    const isHonest = (agentId: string): boolean => people.some((person) => person.agentId === agentId)
    const members = owner.channel(NAME)?.members() ?? []
    const strangers = members.map(({ agentId }) => agentId).filter((agentId) => !isHonest(agentId))
    const roster = [...relay.disk.roster(id).filter(isHonest), ...strangers]
    return disagreement(NAME, others, roster, [], this.#world.now)
  }

  #check(): void {
    const { people, relay, wrong } = this.#cast
    wrong.push(...this.#world.seals.wrong)
    for (const person of people) {
      wrong.push(...person.failures, ...this.#misread(person))
      const bytes = sizeOf(person.disk.contents)
      if (bytes > MOST_STORED_BYTES) wrong.push(`${person.name} stores ${bytes} bytes`)
      const { broken } = person.recordOf(NAME) ?? {}
      const isFramed = this.#traitor.framed.has(person.agentId) && broken === 'store_rolled_back'
      if (broken !== undefined && !this.#traitor.hasDivided && broken !== 'removed' && !isFramed)
        wrong.push(`${person.name}: ${broken}`)
    }
    for (const error of relay.errors) wrong.push(`relay: ${String(error)}`)
    if (wrong.length > 0) throw new Error(wrong.join('\n'))
  }

  /** Words of honest people, under another name or twice. */
  #misread({ name, read }: Person): string[] {
    const before = new Set<string>()
    return read.flatMap(({ text, sender, redelivered }) => {
      if (sender === this.#traitor.agentId) return []
      const isAgain = before.has(text) && !redelivered
      before.add(text)
      if (this.#cast.said.get(text) !== sender) return [`${name} has read ${text} as from ${sender}`]
      return isAgain ? [`${name} has read ${text} twice`] : []
    })
  }
}

function isIn(person: Person): boolean {
  const { state, broken } = person.standing(NAME) ?? {}
  return state === 'joined' && broken === undefined
}

function hasStopped(person: Person): boolean {
  return person.recordOf(NAME)?.broken === 'mls_error'
}

function sizeOf(value: unknown): number {
  if (value instanceof Uint8Array || typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 8
  return Object.values(value).reduce((sum: number, item) => sum + sizeOf(item), 0)
}
