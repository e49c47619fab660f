/**
 * The ticks of sessions on a clock, in all: each costs the relay, whether anybody talks or not, and a guest can ask for
 * many. So there is a number of cells a second for all together, of which guests get a quarter.
 */
import type { StreamId } from '../ports.ts'
import type { Caller } from './session-token.ts'

const GUESTS_SHARE = 0.25
/** What `private` begins with, and `strict` has unless it says otherwise. */
const USUAL_CELLS = { private: 16, strict: 4 } as const

/** Who has a clock. */
export class Clocks {
  readonly #limit: number
  readonly #running = new Map<StreamId, { readonly cells: number; readonly guest: boolean }>()
  #all = 0
  #guests = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Takes the share of a session; false when there is none left. */
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
