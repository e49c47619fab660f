/**
 * The order in which the agents of one process follow commits by others. In a large group each needs up to a tenth of a
 * second on the shared thread, and a commit reaches all of them at once. An agent whose application waits for its own
 * commit must not wait until all others have followed, or until the thread has read its messages.
 */

interface Waiting {
  readonly isUrgent: () => boolean
  readonly go: () => void
}

/** Grants one turn per round of the event loop, so that arrived data is read in between. */
export class FollowTurns {
  readonly #defer: (action: () => void) => void
  readonly #waiting: Waiting[] = []

  /** `defer` runs an action in the next round of the event loop. */
  constructor(defer: (action: () => void) => void) {
    this.#defer = defer
  }

  /**
   * Resolves when it is the caller's turn. Callers that are urgent by then come first; otherwise the order of calls
   * applies.
   */
  async wait(isUrgent: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push({ isUrgent, go: resolve })
    if (this.#waiting.length === 1) this.#defer(() => this.#next())
    await promise
  }

  #next(): void {
    const urgent = this.#waiting.findIndex(({ isUrgent }) => isUrgent())
    const [first] = this.#waiting.splice(Math.max(0, urgent), 1)
    if (this.#waiting.length > 0) this.#defer(() => this.#next())
    first?.go()
  }
}
