/**
 * Cover in the `standard` profile (SPEC.md, "Traffic"): real cells leave at once, in whole units, and units of nothing
 * leave at random moments, so that silence is not silent. A unit is what the smallest message fills. Pure: clock and
 * chance come from outside.
 */
import { CELL_BYTES, makeCell } from './cell.ts'

/** The cells of the smallest bucket of messages: everything leaves in multiples of them. */
export const UNIT_CELLS = 2
const UNIT_BYTES = UNIT_CELLS * CELL_BYTES
/** Between two covers of one side, on average; with its answers to the other side's, a unit leaves every 5 s each way. */
const COVER_MS = 10_000
/** How many real answers are remembered. */
const USUAL = 32
/** Until there was a real one. */
const FIRST_USUAL_MS = 3

/** Fills up with cover to whole units. What is given must be whole cells, and may be returned itself. */
export function wholeUnits(cells: Uint8Array): Uint8Array {
  const over = cells.length % UNIT_BYTES
  if (over === 0) return cells
  // Cover cells are zeros.
  const units = new Uint8Array(cells.length + UNIT_BYTES - over)
  units.set(cells)
  return units
}

const COVER = new Uint8Array(UNIT_BYTES)
const COVER_ASK = new Uint8Array(UNIT_BYTES)
COVER_ASK.set(makeCell('coverAsk'), UNIT_BYTES - CELL_BYTES)

/** A unit of nothing; one that asks is answered by one that does not. Must not be changed. */
export function coverUnit(asks: boolean): Uint8Array {
  return asks ? COVER_ASK : COVER
}

/** How long real answers took lately: an answer to cover takes as long as one of them. */
export class UsualTime {
  readonly #took: number[] = []
  #next = 0

  note(ms: number): void {
    this.#took[this.#next] = ms
    this.#next = (this.#next + 1) % USUAL
  }

  /** One of them, by a number from 0 to below 1. */
  pick(chance: number): number {
    return this.#took[Math.floor(chance * this.#took.length)] ?? FIRST_USUAL_MS
  }
}

/** When cover is due in one direction of a session. */
export class CoverClock {
  readonly #random: () => number
  #coverAt: number
  #answerAt = Infinity

  /** `random` gives numbers from 0 to below 1. */
  constructor(random: () => number, now: number) {
    this.#random = random
    this.#coverAt = now + this.#wait()
  }

  /** When `take` has something next. */
  get due(): number {
    return Math.min(this.#coverAt, this.#answerAt)
  }

  /** The other side has asked. One answer is owed at a time: whoever asks more often gets no more. */
  asked(usual: UsualTime, now: number): void {
    if (this.#answerAt === Infinity) this.#answerAt = now + usual.pick(this.#random())
  }

  /** The unit that is to leave now, if one is. */
  take(now: number): Uint8Array | undefined {
    if (now >= this.#answerAt) {
      this.#answerAt = Infinity
      return coverUnit(false)
    }
    if (now < this.#coverAt) return undefined
    this.#coverAt = now + this.#wait()
    return coverUnit(true)
  }

  /** The times between events that know nothing of each other. */
  #wait(): number {
    return -Math.log(1 - this.#random()) * COVER_MS
  }
}
