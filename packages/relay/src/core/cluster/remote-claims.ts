/** Claims for KeyPackages that this node sends to other nodes. */
import type { Time } from '../../ports.ts'
import type { Claimed } from '../channels/other-nodes.ts'

/** How long others have to answer. */
const CLAIM_MS = 1000
const MAX_CLAIMS = 10_000

interface Claim {
  readonly settle: (claimed: Claimed) => void
  /** By the monotonic clock. */
  readonly until: Time
}

/** Stands for no answer. */
export const NONE_CLAIMED: Claimed = { keyPackage: undefined, waitMs: 0 }

/** The claims waiting for an answer. */
export class RemoteClaims {
  /** Ordered by when they end. */
  readonly #claims = new Map<number, Claim>()
  #last = 0

  get isFull(): boolean {
    return this.#claims.size >= MAX_CLAIMS
  }

  /** Returns the number of a new claim. */
  add(now: Time, settle: (claimed: Claimed) => void): number {
    const id = ++this.#last
    this.#claims.set(id, { settle, until: now + CLAIM_MS })
    return id
  }

  answered(id: number, claimed: Claimed): void {
    const claim = this.#claims.get(id)
    this.#claims.delete(id)
    claim?.settle(claimed)
  }

  tick(now: Time): void {
    for (const [id, { until }] of this.#claims) {
      if (until > now) return
      this.answered(id, NONE_CLAIMED)
    }
  }
}
