/**
 * Adds the documentation link (`docUrl`) to errors as they leave the SDK. The code that creates an error does not know
 * which API the agent uses, so every public method runs its work through an `ErrorEdge`.
 */
import { StaticError } from '@static/protocol'

/** The error edge of one agent. */
export class ErrorEdge {
  readonly #apiUrl: string | undefined

  /** Without an API URL, errors get no link. */
  constructor(apiUrl: string | undefined) {
    this.#apiUrl = apiUrl
  }

  /** Sets the documentation link of an error and returns the error. */
  mark<Thrown>(error: Thrown): Thrown {
    if (error instanceof StaticError) error.explainAt(this.#apiUrl)
    return error
  }

  /** Runs a function whose errors go to the application. */
  run<Result>(work: () => Result): Result {
    try {
      return work()
    } catch (error) {
      throw this.mark(error)
    }
  }

  /** Like `run`, for an async function. */
  async wait<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      throw this.mark(error)
    }
  }

  /** Like `run`, for an async iterator. */
  iterate<Item>(
    source: AsyncIterableIterator<Item, undefined, undefined>,
  ): AsyncIterableIterator<Item, undefined, undefined> {
    const iterator: AsyncIterableIterator<Item, undefined, undefined> = {
      next: () =>
        source.next().catch((error: unknown) => {
          throw this.mark(error)
        }),
      return: () => source.return?.() ?? Promise.resolve({ done: true, value: undefined }),
      [Symbol.asyncIterator]: () => iterator,
    }
    return iterator
  }
}
