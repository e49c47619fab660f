/**
 * Briefly delays refusals that tell a client to retry later. Otherwise, a client that ignores them and repeats its
 * request on the same connection would keep the server busy refusing it.
 */

/** Too many requests; or too much to do, such as a full queue of passwords to check, which a few clients can fill. */
const RETRY_LATER: ReadonlySet<number> = new Set([429, 503])

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

  /** Calls `send`, later if the client is told to retry. */
  send(status: number, send: () => void): void {
    if (!RETRY_LATER.has(status) || this.#waiting >= this.#most) return send()
    this.#waiting++
    setTimeout(() => {
      this.#waiting--
      send()
    }, LATER_MS)
  }
}
