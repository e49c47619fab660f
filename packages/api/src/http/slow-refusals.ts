/**
 * Sends refusals for too many requests a moment later. A client that ignores them and asks again on the same connection
 * would otherwise keep the server busy with refusing it.
 */

const LATER_MS = 250
/**
 * More than these are sent at once: what waits needs memory, and holds a connection. All connections of a load balancer
 * are of one address, which may have 1,000: most of them must stay free for others.
 */
const MOST_WAITING = 250

export class SlowRefusals {
  readonly #most: number
  #waiting = 0

  constructor(most: number = MOST_WAITING) {
    this.#most = most
  }

  /** Calls `send`, later if the status is 429. */
  send(status: number, send: () => void): void {
    if (status !== 429 || this.#waiting >= this.#most) return send()
    this.#waiting++
    setTimeout(() => {
      this.#waiting--
      send()
    }, LATER_MS)
  }
}
