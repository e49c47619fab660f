/**
 * Limits clocked traffic. Each session with a clock costs the relay cells even when it is idle, and a guest can ask
 * for many, so there is a limit of cells per second for all sessions together, and guests get a quarter of it.
 */
import { Shares, sourceOf, type Taken } from '@static/protocol'
import type { Caller } from './session-token.ts'
import type { Stream } from './stream.ts'

const GUESTS_SHARE = 0.25
/** The initial rate of `private`, and the default rate of `strict`. */
const USUAL_CELLS = { private: 16, strict: 4 } as const

/** The sessions with a clock. */
export class Clocks {
  readonly #cells: Shares<Stream>

  constructor(limit: number) {
    this.#cells = new Shares(limit, limit * GUESTS_SHARE)
  }

  /** Reserves the cells of a session if enough are free or other sessions give way. */
  start(stream: Stream, { traffic, cellsPerSecond, account }: Caller): Taken<Stream> {
    if (traffic === 'off' || traffic === 'standard') return { taken: true, ousted: [] }
    const claimant = { account: account?.id, source: sourceOf(stream.address) }
    return this.#cells.take(stream, claimant, cellsPerSecond || USUAL_CELLS[traffic])
  }

  /** The session is in use. */
  used(stream: Stream): void {
    this.#cells.touch(stream)
  }

  stop(stream: Stream): void {
    this.#cells.leave(stream)
  }
}
