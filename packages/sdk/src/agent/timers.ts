/** The timers of one agent, all cancelled when it stops. They do not keep the process alive. */
import { cancelTimer, startBackgroundInterval, startBackgroundTimer, type Timer } from '#platform/turn'
import type { StaticError } from '@static/protocol'

const LONGEST_MS = 2 ** 31 - 1

export class Timers {
  readonly #timers = new Set<Timer>()
  /** Waits that reject when the agent stops. */
  readonly #waits = new Set<PromiseWithResolvers<void>>()

  /** Runs an action after a delay. Returns a function that cancels it. */
  later(milliseconds: number, action: () => void): () => void {
    const timer = startBackgroundTimer(Math.min(milliseconds, LONGEST_MS), () => {
      this.#timers.delete(timer)
      action()
    })
    return this.#hold(timer)
  }

  /** Runs an action repeatedly. Returns a function that cancels it. */
  every(milliseconds: number, action: () => void): () => void {
    return this.#hold(startBackgroundInterval(milliseconds, action))
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
    for (const timer of this.#timers) cancelTimer(timer)
    for (const { reject } of this.#waits) reject(error)
  }

  #hold(timer: Timer): () => void {
    this.#timers.add(timer)
    return () => {
      cancelTimer(timer)
      this.#timers.delete(timer)
    }
  }
}
