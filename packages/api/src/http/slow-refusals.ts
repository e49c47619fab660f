/**
 * Delays refusals for too many requests briefly. Otherwise, a client that ignores them and repeats its request on the
 * same connection would keep the server busy refusing it.
 */

const LATER_MS = 250
/**
 * Beyond this number, refusals are sent at once: each waiting one needs memory and holds a connection. All connections
 * of a load balancer have one address, which may have 1,000; most of them must stay free for others.
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
