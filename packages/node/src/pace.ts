/** One that waits for its turn. */
interface Waiting {
  readonly begin: (isDue: boolean) => void
  readonly isGone: () => boolean
}

/**
 * Slows the work of an address, or of anything else with a key, down to a steady pace: one piece begins in each
 * interval. The newest of those that wait goes first, so that a backlog of one client does not hold up the next one.
 */
export class Pace {
  readonly #everyMs: number
  readonly #most: number
  /** Those that wait, by key, the oldest first; a key without a line may begin at once. */
  readonly #lines = new Map<string, Waiting[]>()

  /** `most` is how many of one key may wait: beyond that, the oldest gets no turn. */
  constructor(everyMs: number, most: number) {
    this.#everyMs = everyMs
    this.#most = most
  }

  /**
   * Resolves to true when it is its turn, or to false if too many others of its key came after it, or if it is gone by
   * then: whoever gives up while waiting uses up no turn.
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
