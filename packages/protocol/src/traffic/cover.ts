/**
 * Cover traffic of the `standard` profile (SPEC.md, "Traffic"): real cells leave immediately, in whole units, and cover
 * units leave at random times, so that silence is hidden. A unit is the size of the smallest message. Pure: clock and
 * randomness are parameters.
 */
import { CELL_BYTES, makeCell } from './cell.ts'

/** Cells in the smallest padding bucket of messages: traffic leaves in multiples of it. */
export const UNIT_CELLS = 2
const UNIT_BYTES = UNIT_CELLS * CELL_BYTES
/**
 * Mean time between two cover units of one side. Including the responses to the other side's units, one leaves every 5
 * s.
 */
const COVER_MS = 10_000
/** How many response times are kept. */
const USUAL = 32
/** Used until there is a real response time. */
const FIRST_USUAL_MS = 3

/** Pads with cover to whole units. The input must be whole cells; it is returned itself if it needs no padding. */
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

/** A cover unit. The peer responds to a unit that asks with one that does not. Must not be modified. */
export function coverUnit(asks: boolean): Uint8Array {
  return asks ? COVER_ASK : COVER
}

/** Recent response times to real messages: a response to cover takes as long as one of them. */
export class UsualTime {
  readonly #took: number[] = []
  #next = 0

  note(ms: number): void {
    this.#took[this.#next] = ms
    this.#next = (this.#next + 1) % USUAL
  }

  /** One of them, chosen by a number from 0 to below 1. */
  pick(chance: number): number {
    return this.#took[Math.floor(chance * this.#took.length)] ?? FIRST_USUAL_MS
  }
}

/** Schedules cover in one direction of a session. */
export class CoverClock {
  readonly #random: () => number
  #coverAt: number
  #answerAt = Infinity

  /** `random` returns numbers from 0 to below 1. */
  constructor(random: () => number, now: number) {
    this.#random = random
    this.#coverAt = now + this.#wait()
  }

  /** When `take` returns the next unit. */
  get due(): number {
    return Math.min(this.#coverAt, this.#answerAt)
  }

  /** The other side has sent a `coverAsk`. Only one response is pending at a time: asking more often has no effect. */
  asked(usual: UsualTime, now: number): void {
    if (this.#answerAt === Infinity) this.#answerAt = now + usual.pick(this.#random())
  }

  /** The unit to send now, if one is due. */
  take(now: number): Uint8Array | undefined {
    if (now >= this.#answerAt) {
      this.#answerAt = Infinity
      return coverUnit(false)
    }
    if (now < this.#coverAt) return undefined
    this.#coverAt = now + this.#wait()
    return coverUnit(true)
  }

  /** Exponentially distributed: the times between independent events. */
  #wait(): number {
    return -Math.log(1 - this.#random()) * COVER_MS
  }
}
