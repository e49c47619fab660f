/**
 * A deterministic world: one clock, one source of randomness, and one queue of events, from which a seed picks.
 * Events at the same time happen in any order, but each lane (a line of the network, the timers of a machine) keeps
 * its own. The same seed gives the same history, byte for byte.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { createHash } from 'node:crypto'
import { randomNumbers } from '../random.ts'
import { enter, quiet } from './environment.ts'
import { Machine } from './machine.ts'
import { Seals } from './seals.ts'

const START = Date.UTC(2027, 0, 15, 12)

interface Event {
  readonly at: number
  readonly lane: unknown
  readonly machine: Machine | undefined
  readonly run: () => void
}

/** A world. Only one exists at a time in a process. */
export class World {
  /** The events, in words. */
  readonly story: string[] = []
  readonly random: () => number
  readonly seals: Seals = new Seals()
  /** The randomness of keys and the like, apart from that of decisions: a change of one leaves the other as it is. */
  readonly #noise: () => number
  readonly #digest = createHash('sha256')
  readonly #owner = new AsyncLocalStorage<Machine>()
  readonly #lanes = new WeakMap<Machine, { readonly timers: object; readonly immediates: object }>()
  readonly #outside = { timers: {}, immediates: {} }
  /** Every line, for finding the first difference between two runs. */
  readonly #lines: string[] | undefined
  #events: Event[] = []
  #now = START

  private constructor(seed: number, options: { readonly lines?: boolean }) {
    this.random = randomNumbers(seed)
    this.#noise = randomNumbers(seed ^ 0x5eed)
    this.#lines = options.lines ? [] : undefined
  }

  /** Lets something happen in a new world. Its clock and randomness are those of the whole process meanwhile. */
  static async live<Result>(
    seed: number,
    happen: (world: World) => Promise<Result>,
    options: { readonly lines?: boolean } = {},
  ): Promise<Result> {
    const world = new World(seed, options)
    const leave = enter({
      now: () => world.now,
      random: world.#noise,
      bytes: (length) => Buffer.from(Array.from({ length }, () => Math.floor(world.#noise() * 256))),
      later: (ms, action) => world.#timer(ms, action),
      every: (ms, action) => world.#interval(ms, action),
      sealed: (key, text) => world.seals.sealed(key, text),
      soon: (action) => world.#add(0, world.#lanesOf().immediates, world.#owner.getStore(), action),
    })
    try {
      return await happen(world)
    } finally {
      leave()
    }
  }

  /** Milliseconds since 1970. */
  get now(): number {
    return this.#now
  }

  /** The machine on whose behalf code runs now. */
  get acting(): Machine | undefined {
    return this.#owner.getStore()
  }

  /** A digest of everything that happened until now. */
  get digest(): string {
    return this.#digest.copy().digest('hex')
  }

  get lines(): readonly string[] {
    return this.#lines ?? []
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit)
  }

  /** Picks one of several; undefined if there is none. */
  pick<Item>(items: readonly Item[]): Item | undefined {
    return items[this.below(items.length)]
  }

  machine(name: string): Machine {
    const machine = new Machine(this, name)
    this.#lanes.set(machine, { timers: {}, immediates: {} })
    machine.onDeath(() => {
      this.#events = this.#events.filter((event) => event.machine !== machine)
    })
    return machine
  }

  /** Logs something for people. */
  tell(line: string): void {
    this.story.push(`${((this.#now - START) / 1000).toFixed(3)} ${line}`)
    this.note(line)
  }

  /** Records something that must be the same in every run of a seed. */
  note(line: string): void {
    const whole = `${this.#now} ${line}\n`
    this.#digest.update(whole)
    this.#lines?.push(whole)
  }

  /** Plans an event of a machine, after those of its lane. */
  plan(ms: number, lane: unknown, machine: Machine, run: () => void): void {
    const last = this.#events.findLast((event) => event.lane === lane)
    this.#add(Math.max(ms, (last?.at ?? 0) - this.#now), lane, machine, run)
  }

  /** Runs an action whose timers and promises belong to a machine. */
  run(machine: Machine, action: () => void): void {
    this.#owner.run(machine, action)
  }

  /** Runs until a condition holds. Throws if it does not hold within a time. */
  async until(isSo: () => boolean, patienceMs: number, what: () => string): Promise<void> {
    const end = this.#now + patienceMs
    for (;;) {
      await quiet()
      if (isSo()) return
      if (this.#now > end) throw new Error(what())
      this.#step(end + 1)
    }
  }

  /** Lets a time pass. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms
    do {
      await quiet()
      this.#step(end)
    } while (this.#now < end)
    await quiet()
  }

  /** The next event, or the end of the time if that comes first. */
  #step(end: number): void {
    const first = this.#events.reduce((least, { at }) => Math.min(least, at), end)
    this.#now = Math.max(this.#now, first)
    const lanes = new Map<unknown, Event>()
    for (const event of this.#events) {
      if (event.at > this.#now) continue
      const before = lanes.get(event.lane)
      if (!before || event.at < before.at) lanes.set(event.lane, event)
    }
    const event = this.pick([...lanes.values()])
    if (!event) return
    this.#events.splice(this.#events.indexOf(event), 1)
    if (event.machine) event.machine.do(event.run)
    else event.run()
  }

  #add(ms: number, lane: unknown, machine: Machine | undefined, run: () => void): () => void {
    const event = { at: this.#now + Math.max(0, ms), lane, machine, run }
    if (!machine?.isDead) this.#events.push(event)
    return () => {
      const at = this.#events.indexOf(event)
      if (at !== -1) this.#events.splice(at, 1)
    }
  }

  #timer(ms: number, action: () => void): () => void {
    return this.#add(nodeDelay(ms), this.#lanesOf().timers, this.#owner.getStore(), action)
  }

  #interval(ms: number, action: () => void): () => void {
    const owner = this.#owner.getStore()
    const { timers } = this.#lanesOf()
    let cancel = (): void => {}
    const next = (): void => {
      cancel = this.#add(nodeDelay(ms), timers, owner, () => {
        next()
        action()
      })
    }
    next()
    return () => cancel()
  }

  #lanesOf(): { readonly timers: object; readonly immediates: object } {
    const owner = this.#owner.getStore()
    return (owner && this.#lanes.get(owner)) ?? this.#outside
  }
}

/** A delay as in Node: whole milliseconds, at least one. */
function nodeDelay(ms: number): number {
  return Math.max(1, Math.trunc(ms))
}
