/**
 * Limits clocked traffic. Each session with a clock costs the relay cells even when it is idle, and a guest can ask
 * for many, so there is a limit of cells per second for all sessions together, and guests get a quarter of it.
 */
import type { StreamId } from '../ports.ts'
import type { Caller } from './session-token.ts'

const GUESTS_SHARE = 0.25
/** The initial rate of `private`, and the default rate of `strict`. */
const USUAL_CELLS = { private: 16, strict: 4 } as const

/** The sessions with a clock. */
export class Clocks {
  readonly #limit: number
  readonly #running = new Map<StreamId, { readonly cells: number; readonly guest: boolean }>()
  #all = 0
  #guests = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Reserves the cells of a session; false if the limit is reached. */
  start(stream: StreamId, { traffic, cellsPerSecond, account }: Caller): boolean {
    if (traffic === 'off' || traffic === 'standard') return true
    const cells = cellsPerSecond || USUAL_CELLS[traffic]
    const guest = account === undefined
    if (this.#all + cells > this.#limit) return false
    if (guest && this.#guests + cells > this.#limit * GUESTS_SHARE) return false
    this.#running.set(stream, { cells, guest })
    this.#add(cells, guest)
    return true
  }

  stop(stream: StreamId): void {
    const share = this.#running.get(stream)
    if (share && this.#running.delete(stream)) this.#add(-share.cells, share.guest)
  }

  #add(cells: number, guest: boolean): void {
    this.#all += cells
    if (guest) this.#guests += cells
  }
}
