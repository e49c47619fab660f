/** One at a time per key: between reading a group's state and saving the next one nothing else may touch it. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>()

  /** Runs the task when all earlier ones of the same key have ended, and gives its result. */
  async run<Result>(key: string, task: () => Promise<Result> | Result): Promise<Result> {
    const before = this.#tails.get(key)
    const { promise: tail, resolve: release } = Promise.withResolvers<void>()
    this.#tails.set(key, tail)
    await before
    try {
      return await task()
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key)
      release()
    }
  }
}
