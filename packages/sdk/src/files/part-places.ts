/** The places of an agent's transfers: so many parts are read, encrypted, sent or fetched at a time. */

/** As many as the relay has for one agent. */
export const MOST_PARTS_AT_ONCE = 4

export class PartPlaces {
  #taken = 0
  readonly #waiting: (() => void)[] = []

  /** Runs a task with a place. Waits for one; those that wait get it in order. */
  async with<Result>(task: () => Promise<Result>): Promise<Result> {
    if (this.#taken < MOST_PARTS_AT_ONCE) this.#taken++
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await task()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#taken--
    }
  }
}
