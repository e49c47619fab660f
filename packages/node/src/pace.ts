/**
 * Slows the work of an address, or of anything else with a key, down to a steady pace: one piece begins in each
 * interval. The newest of those that wait goes first, so that a backlog of one client does not hold up the next one.
 */
export class Pace {
  readonly #everyMs: number
  readonly #most: number
  /** Those that wait, by key, the oldest first; a key without a line may begin at once. */
  readonly #lines = new Map<string, ((isDue: boolean) => void)[]>()

  /** `most` is how many of one key may wait: beyond that, the oldest gets no turn. */
  constructor(everyMs: number, most: number) {
    this.#everyMs = everyMs
    this.#most = most
  }

  /** Resolves to true when it is its turn, or to false if too many others of its key came after it. */
  turn(key: string): Promise<boolean> {
    const line = this.#lines.get(key)
    if (line === undefined) {
      this.#lines.set(key, [])
      this.#schedule(key)
      return Promise.resolve(true)
    }
    const { promise, resolve } = Promise.withResolvers<boolean>()
    line.push(resolve)
    if (line.length > this.#most) line.shift()?.(false)
    return promise
  }

  #schedule(key: string): void {
    setTimeout(() => {
      const begin = this.#lines.get(key)?.pop()
      if (begin === undefined) return void this.#lines.delete(key)
      begin(true)
      this.#schedule(key)
    }, this.#everyMs).unref()
  }
}
