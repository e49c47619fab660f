/** Runs one task at a time per key: nothing may use a group's state between reading it and saving the next one. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>()

  /** Runs the task after all earlier tasks with the same key have settled, and returns its result. */
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
