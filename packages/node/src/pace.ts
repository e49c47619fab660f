/** A piece of work waiting for its turn. */
interface Waiting {
  readonly begin: (isDue: boolean) => void
  readonly isGone: () => boolean
}

/**
 * Slows the work of each key, such as an address, down to a steady pace: one piece begins in each interval. The newest
 * waiting piece goes first, so that one client's backlog does not delay the next client.
 */
export class Pace {
  readonly #everyMs: number
  readonly #most: number
  /** The waiting pieces by key, oldest first. A key without a line may begin at once. */
  readonly #lines = new Map<string, Waiting[]>()

  /** `most` is the number of pieces of one key that may wait. Beyond that, the oldest gets no turn. */
  constructor(everyMs: number, most: number) {
    this.#everyMs = everyMs
    this.#most = most
  }

  /**
   * Resolves to true when its turn comes, or to false if too many later pieces of its key arrived or it is gone by
   * then: a caller that gives up while waiting uses up no turn.
   */
  turn(key: string, isGone = (): boolean => false): Promise<boolean> {
    const line = this.#lines.get(key)
    if (line === undefined) {
      this.#lines.set(key, [])
      this.#schedule(key)
      return Promise.resolve(true)
    }
    const { promise, resolve } = Promise.withResolvers<boolean>()
    line.push({ begin: resolve, isGone })
    if (line.length > this.#most) line.shift()?.begin(false)
    return promise
  }

  #schedule(key: string): void {
    setTimeout(() => {
      const line = this.#lines.get(key) ?? []
      let next = line.pop()
      for (; next?.isGone(); next = line.pop()) next.begin(false)
      if (next === undefined) return void this.#lines.delete(key)
      next.begin(true)
      this.#schedule(key)
    }, this.#everyMs).unref()
  }
}
