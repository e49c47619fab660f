/** Who waits until everything is processed that the relay has. */
import type { StaticError } from '@static/protocol'

/** Of one channel. */
export class CatchUp {
  /** The last entry of the relay; undefined until it has said. */
  #last: number | undefined
  readonly #waiting = new Set<PromiseWithResolvers<void>>()

  /** Fulfilled when the last entry is processed that the relay tells of from now on. */
  async wait(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    const waiting = Promise.withResolvers<void>()
    const abort = (): void => {
      this.#waiting.delete(waiting)
      waiting.reject(signal?.reason)
    }
    this.#waiting.add(waiting)
    signal?.addEventListener('abort', abort)
    try {
      await waiting.promise
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  /** What the relay has said is not to be relied on any more; it will say it again. */
  forget(): void {
    this.#last = undefined
  }

  /** The relay has entries up to this one. */
  expect(last: number): void {
    this.#last = last
  }

  /** Everything up to here is processed. */
  reached(index: number): void {
    if (this.#last === undefined || index < this.#last) return
    for (const { resolve } of this.#take()) resolve()
  }

  /** Nothing more comes, because of this. */
  fail(error: StaticError): void {
    for (const { reject } of this.#take()) reject(error)
  }

  #take(): readonly PromiseWithResolvers<void>[] {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    return waiting
  }
}
