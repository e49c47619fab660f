/** Callers waiting until everything the relay has is processed. */
import type { StaticError } from '@static/protocol'

/** The pending calls of `catchUp` in one channel. */
export class CatchUp {
  /** The relay's last entry; undefined until the relay has reported it. */
  #last: number | undefined
  readonly #waiting = new Set<PromiseWithResolvers<void>>()

  /** Resolves when the last entry that the relay reports from now on is processed. */
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

  /** Discards the relay's last report; it will report again. */
  forget(): void {
    this.#last = undefined
  }

  /** The relay reports entries up to this one. */
  expect(last: number): void {
    this.#last = last
  }

  /** Everything up to here is processed. */
  reached(index: number): void {
    if (this.#waiting.size === 0 || this.#last === undefined || index < this.#last) return
    for (const { resolve } of this.#removeAll()) resolve()
  }

  /** Rejects all pending calls, because no more entries will arrive. */
  fail(error: StaticError): void {
    for (const { reject } of this.#removeAll()) reject(error)
  }

  #removeAll(): readonly PromiseWithResolvers<void>[] {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    return waiting
  }
}
