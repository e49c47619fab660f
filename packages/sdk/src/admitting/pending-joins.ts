/**
 * The join requests of one channel that the relay has given this agent, and that still wait there. The relay gives each
 * one once in a session, so what cannot be decided at once stays here for another try.
 */
import { toHex } from '@static/protocol'
import type { JoinRequest, PollJoinRequestsResponse } from '@static/protocol/relay'

/** An honest relay gives no more, and no larger ones. Beyond it, the oldest are forgotten until the next session. */
const MOST_REQUESTS = 2048
const MOST_BYTES = 2_097_152
const MOST_BOX_BYTES = 16_384

/** The requests of one channel. */
export class PendingJoins {
  readonly #requests = new Map<string, JoinRequest>()
  #after = 0n
  #bytes = 0

  /** The number of the last request that was given. */
  get after(): bigint {
    return this.#after
  }

  /** All that wait, the newest last. */
  get all(): readonly JoinRequest[] {
    return [...this.#requests.values()]
  }

  /** Another session begins, in which the relay gives all requests again. */
  restart(): void {
    this.#requests.clear()
    this.#bytes = 0
    this.#after = 0n
  }

  /** Takes the answer to a poll after `after`. Returns the requests that are new. */
  take({ requests, last, pending }: PollJoinRequestsResponse): readonly JoinRequest[] {
    if (last < this.#after) {
      this.restart()
      return []
    }
    const waiting = new Set(pending)
    for (const [key, { number }] of this.#requests) if (!waiting.has(number)) this.#drop(key)
    this.#after = last
    const fresh = requests.filter(({ box }) => box.length <= MOST_BOX_BYTES)
    for (const request of fresh) this.#put(request)
    return fresh
  }

  #put(request: JoinRequest): void {
    const key = `${toHex(request.inviteId)} ${toHex(request.agentId)}`
    this.#drop(key)
    this.#requests.set(key, request)
    this.#bytes += request.box.length
    for (const oldest of this.#requests.keys()) {
      if (this.#requests.size <= MOST_REQUESTS && this.#bytes <= MOST_BYTES) return
      this.#drop(oldest)
    }
  }

  #drop(key: string): void {
    this.#bytes -= this.#requests.get(key)?.box.length ?? 0
    this.#requests.delete(key)
  }
}
