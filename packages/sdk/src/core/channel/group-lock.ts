/** Lets one task at a time have a group to itself: MLS makes and follows commits asynchronously. */
export class GroupLock {
  #task: Promise<void> | undefined

  get isFree(): boolean {
    return this.#task === undefined
  }

  /** Locks at once, and until the task is over; then `freed` is called. The task must not fail. */
  run(task: () => Promise<void>, freed: () => void): void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#task = promise
    void task().finally(() => {
      this.#task = undefined
      freed()
      resolve()
    })
  }

  /** Fulfilled when no task has the group. */
  async idle(): Promise<void> {
    while (this.#task) await this.#task
  }
}
