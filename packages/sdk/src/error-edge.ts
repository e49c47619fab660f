/**
 * Where errors leave the SDK and learn which page explains them (`docUrl`): deep inside, where they are made, nothing
 * knows which API the agent uses. Each public method runs its work through here.
 */
import { StaticError } from '@static/protocol'

/** The edge of one agent. */
export class ErrorEdge {
  readonly #apiUrl: string | undefined

  /** Without an API there is no page to name. */
  constructor(apiUrl: string | undefined) {
    this.#apiUrl = apiUrl
  }

  /** Names the page of an error, and returns the error. */
  mark<Thrown>(error: Thrown): Thrown {
    if (error instanceof StaticError) error.explainAt(this.#apiUrl)
    return error
  }

  /** Does something whose errors are for the application. */
  run<Result>(work: () => Result): Result {
    try {
      return work()
    } catch (error) {
      throw this.mark(error)
    }
  }

  /** The same for what takes its time. */
  async wait<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      throw this.mark(error)
    }
  }

  /** The same for what comes by and by. */
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
