/** Pending calls that the program can cancel. */
import type { SendOptions } from '../public/options/channel-options.ts'

/** Limits of a call: the program's signal, and its timeout if it set one. */
type CallLimits = SendOptions & { readonly signal: AbortSignal }

/** The pending calls of one program. */
export class PendingCalls {
  /** Ends the wait of a call, by its number. */
  readonly #cancels = new Map<number, AbortController>()

  /** Runs a call within its limits. */
  async run<Result>(
    { id, timeout }: { readonly id: number; readonly timeout?: number },
    call: (limits: CallLimits) => Promise<Result>,
  ): Promise<Result> {
    const cancel = new AbortController()
    this.#cancels.set(id, cancel)
    try {
      return await call({ signal: cancel.signal, ...(timeout === undefined ? {} : { timeout }) })
    } finally {
      this.#cancels.delete(id)
    }
  }

  /** Ends the wait of a call; does nothing if the call has been answered. */
  cancel(id: number): void {
    this.#cancels.get(id)?.abort()
  }
}
