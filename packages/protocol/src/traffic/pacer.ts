/**
 * The clock of the `private` and the `strict` profile (SPEC.md, "Traffic"): one cell leaves at each tick, a real one if
 * one waits and a cover cell otherwise, so that real data replaces cover and adds nothing. When a tick comes depends on
 * the clock and on chance alone; in `private` also on a level that changes every 10 s at most. Pure: clock and chance
 * come from outside.
 */
import { CELL_BYTES, makeCell } from './cell.ts'
import type { TrafficProfileName } from '../signed/session.ts'

/** How cells leave: by a ladder of levels, or always at one rate. */
export type Pace = { readonly type: 'ladder' } | { readonly type: 'steady'; readonly cellsPerSecond: number }

/** The rate of `strict` unless the agent says another. */
const STRICT_CELLS_PER_SECOND = 4
/** The levels of `private`, in cells per second. */
const LADDER = [1, 4, 16, 64] as const
/** Where every session in `private` begins, whatever it has to say: at first there is much. */
const FIRST_LEVEL = LADDER[2]
/** How often `private` may change its level. */
const LEVEL_MS = 10_000
/** Of a period, in both directions. */
const JITTER = 0.1
/** More cells that stand for themselves wait only when the other side asks for more than the clock can answer. */
const MAX_URGENT = 256

/** What a pacer has done so far. */
export interface PacerCounts {
  real: number
  cover: number
  /** How long real cells have waited, added up. */
  waitedMs: number
}

/** The pace of a profile; none for those that have no clock. `cellsPerSecond` 0 stands for the default. */
export function paceOf(profile: TrafficProfileName, cellsPerSecond: number): Pace | undefined {
  if (profile === 'private') return { type: 'ladder' }
  if (profile !== 'strict') return undefined
  return { type: 'steady', cellsPerSecond: cellsPerSecond || STRICT_CELLS_PER_SECOND }
}

const COVER = makeCell('cover')

/** One direction of a session on a clock. */
export class Pacer {
  /** The rate now, in cells per second. */
  level: number
  readonly counts: PacerCounts = { real: 0, cover: 0, waitedMs: 0 }
  readonly #random: () => number
  readonly #hasLadder: boolean
  readonly #urgent = new Lane()
  readonly #data = new Lane()
  /** Where the next tick would be without jitter. */
  #grid: number
  #due: number
  #markAt: number
  #realSinceMark = 0

  /** `random` gives numbers from 0 to below 1. */
  constructor(pace: Pace, random: () => number, now: number) {
    this.#random = random
    this.#hasLadder = pace.type === 'ladder'
    this.level = pace.type === 'ladder' ? FIRST_LEVEL : pace.cellsPerSecond
    // Two sessions that open together do not tick together.
    this.#grid = now + random() * this.#period
    this.#due = this.#grid
    this.#markAt = now + LEVEL_MS
  }

  /** When the next cell leaves. */
  get due(): number {
    return this.#due
  }

  /** How many real cells wait. */
  get waiting(): number {
    return this.#urgent.length + this.#data.length
  }

  /** Takes whole cells that must not change any more. Urgent ones stand for themselves and go between the others. */
  push(cells: Uint8Array, urgent: boolean, now: number): void {
    const lane = urgent ? this.#urgent : this.#data
    lane.push(cells, now)
    // A pong speaks for those before it, and what an acknowledgement missed comes again: the oldest can go.
    while (this.#urgent.length > MAX_URGENT) this.#urgent.shift()
  }

  /** The cell that leaves now. It must not be changed. To be called once for every `due`, when that has come. */
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
    // Ticks that were missed are not made good: two in one would be longer than the others. Nor is one right after a
    // late one, which would tell by how much that was late.
    do this.#grid += this.#period
    while (this.#grid < now + this.#period / 2)
    this.#due = this.#grid + (this.#random() * 2 - 1) * JITTER * this.#period
    return real?.cell ?? COVER
  }

  get #period(): number {
    return 1000 / this.level
  }

  /** Chooses the level of the next 10 s: at once as high as is needed, down by one step. */
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

/** Cells that wait, in order. */
class Lane {
  length = 0
  #chunks: { readonly cells: Uint8Array; readonly since: number }[] = []
  /** How much of the first chunk has left. */
  #taken = 0

  push(cells: Uint8Array, since: number): void {
    if (cells.length % CELL_BYTES !== 0) throw new RangeError('Only whole cells can leave.')
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
