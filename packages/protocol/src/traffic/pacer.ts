/**
 * The clock of the `private` and `strict` profiles (SPEC.md, "Traffic"): one cell leaves at each tick, a real one if
 * one is queued and a cover cell otherwise, so real data replaces cover and adds no traffic. The time of a tick depends
 * only on the clock and on randomness and, in `private`, on a level that changes at most every 10 s. Pure: clock and
 * randomness are parameters.
 */
import { CELL_BYTES, makeCell } from './cell.ts'
import type { TrafficProfileName } from '../signed/session.ts'

/** How fast cells leave: at one of several levels (ladder), or always at the same rate. */
export type Pace = { readonly type: 'ladder' } | { readonly type: 'steady'; readonly cellsPerSecond: number }

/** The default rate of `strict`. */
const STRICT_CELLS_PER_SECOND = 4
/** The levels of `private`, in cells per second. */
const LADDER = [1, 4, 16, 64] as const
/** The first level of every session in `private`, regardless of its traffic, because a new session has much to send. */
const FIRST_LEVEL = LADDER[2]
/** The shortest time between two changes of level in `private`. */
const LEVEL_MS = 10_000
/** As a share of a period, in both directions. */
const JITTER = 0.1
/** More self-contained cells queue up only if the other side asks for more responses than the clock can send. */
const MAX_URGENT = 256

/** Counts of the cells that a pacer has sent. */
export interface PacerCounts {
  real: number
  cover: number
  /** The total time that real cells have waited. */
  waitedMs: number
}

/** The pace of a profile; undefined for profiles without a clock. `cellsPerSecond` 0 means the default. */
export function paceOf(profile: TrafficProfileName, cellsPerSecond: number): Pace | undefined {
  if (profile === 'private') return { type: 'ladder' }
  if (profile !== 'strict') return undefined
  return { type: 'steady', cellsPerSecond: cellsPerSecond || STRICT_CELLS_PER_SECOND }
}

const COVER = makeCell('cover')

/** Sends one direction of a session on a clock. */
export class Pacer {
  /** The current rate, in cells per second. */
  level: number
  readonly counts: PacerCounts = { real: 0, cover: 0, waitedMs: 0 }
  readonly #random: () => number
  readonly #hasLadder: boolean
  readonly #urgent = new Lane()
  readonly #data = new Lane()
  /** The time of the next tick without jitter. */
  #grid: number
  #due: number
  #markAt: number
  #realSinceMark = 0

  /** `random` returns numbers from 0 to below 1. */
  constructor(pace: Pace, random: () => number, now: number) {
    this.#random = random
    this.#hasLadder = pace.type === 'ladder'
    this.level = pace.type === 'ladder' ? FIRST_LEVEL : pace.cellsPerSecond
    // Two sessions that open at the same time must not tick at the same time.
    this.#grid = now + random() * this.#period
    this.#due = this.#grid
    this.#markAt = now + LEVEL_MS
  }

  /** When the next cell leaves. */
  get due(): number {
    return this.#due
  }

  /** How many real cells are queued. */
  get waiting(): number {
    return this.#urgent.length + this.#data.length
  }

  /** Queues whole cells, which must not be modified afterwards. Urgent ones are self-contained and go first. */
  push(cells: Uint8Array, urgent: boolean, now: number): void {
    const lane = urgent ? this.#urgent : this.#data
    lane.push(cells, now)
    // A pong covers earlier ones, and a later acknowledgement covers a lost one: the oldest can be dropped.
    while (this.#urgent.length > MAX_URGENT) this.#urgent.shift()
  }

  /** The cell to send now, which must not be modified. Call it once for every `due`, when that time has come. */
  tick(now: number): Uint8Array {
    const real = this.#urgent.shift() ?? this.#data.shift()
    if (real) {
      this.counts.real++
      this.counts.waitedMs += now - real.since
      this.#realSinceMark++
    } else {
      this.counts.cover++
    }
    if (now >= this.#markAt) this.#mark(now)
    // Missed ticks are not made up for: two cells at once would be a longer packet than others. Nor does a tick follow
    // right after a late one, which would reveal how late it was.
    do this.#grid += this.#period
    while (this.#grid < now + this.#period / 2)
    this.#due = this.#grid + (this.#random() * 2 - 1) * JITTER * this.#period
    return real?.cell ?? COVER
  }

  get #period(): number {
    return 1000 / this.level
  }

  /** Chooses the level of the next 10 s: up as far as needed, or down by one step. */
  #mark(now: number): void {
    this.#markAt += Math.ceil((now - this.#markAt + 1) / LEVEL_MS) * LEVEL_MS
    const wanted = ((this.#realSinceMark + this.waiting) * 1000) / LEVEL_MS
    this.#realSinceMark = 0
    if (!this.#hasLadder) return
    const at = LADDER.findIndex((level) => level === this.level)
    const needed = LADDER.findIndex((level) => level >= wanted)
    const next = needed === -1 ? LADDER.length - 1 : Math.max(needed, at - 1)
    this.level = LADDER[next] ?? this.level
    this.#grid = now
  }
}

/** A queue of cells. */
class Lane {
  length = 0
  #chunks: { readonly cells: Uint8Array; readonly since: number }[] = []
  /** How many bytes of the first chunk have left. */
  #taken = 0

  push(cells: Uint8Array, since: number): void {
    if (cells.length % CELL_BYTES !== 0) throw new RangeError('The input must be whole cells.')
    if (cells.length === 0) return
    this.#chunks.push({ cells, since })
    this.length += cells.length / CELL_BYTES
  }

  shift(): { readonly cell: Uint8Array; readonly since: number } | undefined {
    const [first] = this.#chunks
    if (!first) return undefined
    const cell = first.cells.subarray(this.#taken, this.#taken + CELL_BYTES)
    this.#taken += CELL_BYTES
    if (this.#taken === first.cells.length) {
      this.#chunks.shift()
      this.#taken = 0
    }
    this.length--
    return { cell, since: first.since }
  }
}
