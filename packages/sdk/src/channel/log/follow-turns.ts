/**
 * The order in which the agents of one process follow commits of others. In a large group that takes each of them a good
 * part of a tenth of a second, on one thread, and a commit reaches all of them at once: an agent whose application waits
 * for a commit of its own must neither wait until all others have followed, nor until the thread has read its messages.
 */

interface Waiting {
  readonly isUrgent: () => boolean
  readonly go: () => void
}

/** One turn for each round of the event loop, so that what has arrived is read in between. */
export class FollowTurns {
  readonly #defer: (action: () => void) => void
  readonly #waiting: Waiting[] = []

  /** `defer` runs an action in the next round of the event loop. */
  constructor(defer: (action: () => void) => void) {
    this.#defer = defer
  }

  /** Resolves when it is this one's turn: first those that are urgent by then, each in the order in which they came. */
  async take(isUrgent: () => boolean): Promise<void> {
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
