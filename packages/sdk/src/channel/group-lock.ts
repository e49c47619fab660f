/** Gives one task at a time exclusive access to a group: MLS creates and processes commits asynchronously. */
export class GroupLock {
  #task: Promise<void> | undefined

  get isFree(): boolean {
    return this.#task === undefined
  }

  /** Locks immediately, until the task is done; then calls `freed`. The task must not fail. */
  run(task: () => Promise<void>, freed: () => void): void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#task = promise
    void task().finally(() => {
      this.#task = undefined
      freed()
      resolve()
    })
  }

  /** Resolves when no task holds the group. */
  async idle(): Promise<void> {
    while (this.#task) await this.#task
  }
}
