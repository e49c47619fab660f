/** The bytes of all bodies together in a second: beyond it, each waits its turn. */
import type { Time } from '../ports.ts'

/** After a pause, the bytes of so long may pass at once. */
const BURST_MS = 250

export class Throttle {
  readonly #perMs: number
  #next: Time = 0

  constructor(bytesPerSecond: number) {
    this.#perMs = bytesPerSecond / 1000
  }

  /** Counts bytes; returns how many milliseconds to wait before the next ones. `now` is monotonic. */
  pass(bytes: number, now: Time): number {
    this.#next = Math.max(this.#next, now - BURST_MS) + bytes / this.#perMs
    return Math.max(0, Math.ceil(this.#next - now))
  }
}
