/**
 * A random history of one channel with a member that holds its keys and attacks the others (traitor.ts), over crashes.
 * Honest members agree on what was valid, blame nobody else, and are told no words of each other that were not said; the
 * owner can always remove the traitor, and then they go on.
 */
import type { World } from '@static/testkit/world'
import { Cast, NAME } from './cast.ts'
import { disagreement } from './checker.ts'
import { PAUSES } from './history.ts'
import type { Person } from './person.ts'
import { Traitor } from './traitor.ts'
import { Witness } from './witness.ts'

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
  }

  get counts(): Record<string, number> {
    return this.#cast.counts
  }

  async run(): Promise<void> {
    const cast = this.#cast
    const traitor = this.#traitor
    await cast.found(PATIENCE_MS)
    await this.#drain()
    for (let stretch = 0; stretch < STRETCHES; stretch++) {
      if (!traitor.isIn) traitor.join()
      await this.#drain()
      for (let step = 0; step < STEPS; step++) {
        cast.step([...cast.calls, ...cast.faults, [60, () => traitor.attack()]])
        await this.#world.pass(this.#world.pick(PAUSES) ?? 0)
      }
      await cast.recover(PATIENCE_MS)
      await this.#drain()
      await this.#agree()
      // Most applications go on with a traitor at first.
      if (stretch === STRETCHES - 1 || this.#world.random() < 0.3) await this.#remove()
    }
  }

  /** The owner removes the traitor, and all say something. */
  async #remove(): Promise<void> {
    const { owner, people } = this.#cast
    const { agentId } = this.#traitor
    if (this.#traitor.isIn)
      this.#cast.do('owner removes mal', owner, ({ client }) => client.channel(NAME).removeMember(agentId))
    await this.#drain()
    await this.#agree()
    if (this.#traitor.isIn) throw new Error('The traitor is still a member.')
    for (const person of people.filter(isIn)) this.#cast.send(person)
    await this.#drain()
    await this.#agree()
    this.#cast.count('expelled')
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
    if (fork !== this.#traitor.agentId) this.#cast.wrong.push(`${person.name} blames ${fork}`)
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
    const others = this.#traitor.hasDivided ? people.filter((person) => !hasStopped(person)) : people
    // Its accomplices get no Welcome, and so no place on the roster.
    const known = [...people.map(({ agentId }) => agentId), this.#traitor.agentId]
    const members =
      owner
        .channel(NAME)
        ?.members()
        .map(({ agentId }) => agentId) ?? []
    const accomplices = members.filter((agentId) => !known.includes(agentId))
    const roster = [...relay.disk.roster(id).filter((agentId) => known.includes(agentId)), ...accomplices]
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
      if (broken !== undefined && !this.#traitor.hasDivided && broken !== 'removed')
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
