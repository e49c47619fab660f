/** The timers of one agent, all cancelled when it stops. They do not keep the process alive. */
import type { StaticError } from '@static/protocol'

const LONGEST_MS = 2 ** 31 - 1

export class Timers {
  readonly #timers = new Set<NodeJS.Timeout>()
  /** Waits that reject when the agent stops. */
  readonly #waits = new Set<PromiseWithResolvers<void>>()

  /** Runs an action after a delay. Returns a function that cancels it. */
  later(milliseconds: number, action: () => void): () => void {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer)
        action()
      },
      Math.min(milliseconds, LONGEST_MS),
    )
    return this.#hold(timer)
  }

  /** Runs an action repeatedly. Returns a function that cancels it. */
  every(milliseconds: number, action: () => void): () => void {
    return this.#hold(setInterval(action, milliseconds))
  }

  /**
   * Waits for a time.
   *
   * @throws {StaticError} if the agent stops meanwhile
   */
  async wait(milliseconds: number): Promise<void> {
    const waiting = Promise.withResolvers<void>()
    this.#waits.add(waiting)
    this.later(milliseconds, waiting.resolve)
    try {
      await waiting.promise
    } finally {
      this.#waits.delete(waiting)
    }
  }

  /** Cancels all timers. Pending waits get the error. */
  stop(error: StaticError): void {
    for (const timer of this.#timers) clearTimeout(timer)
    for (const { reject } of this.#waits) reject(error)
  }

  #hold(timer: NodeJS.Timeout): () => void {
    timer.unref()
    this.#timers.add(timer)
    return () => {
      clearTimeout(timer)
      this.#timers.delete(timer)
    }
  }
}
