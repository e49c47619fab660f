/**
 * How many KeyPackages of an agent each account may claim, so that no account can use up those that others need. A
 * claim at any node is counted at the node that holds the KeyPackages. There is no common limit for all accounts: one
 * of them could use it up.
 */
import { type Account, accountKey, type AgentId, type Time } from '../../ports.ts'
import { Rates } from '../requests/rates.ts'

/** What is known of the KeyPackages of an agent. */
export interface Supply {
  /** The account of the agent. */
  readonly account: Account
  readonly held: number
  /** Identifies the newest one; changes with every upload. */
  readonly newest: string
  readonly isConnected: boolean
}

/**
 * Below this, the agent is asked for more, and an account that has had one since the last upload gets no other. The
 * agent's own account may take all: it harms no one else.
 */
export const LOW_KEY_PACKAGES = 8
/** When to retry: a connected agent uploads immediately, unless it has done so 8 times within 80 s. */
const WAIT_MS = { connected: 1000, away: 10_000 } as const
const MOST_CLAIMS = 100_000

export class ClaimShares {
  readonly #rates: Rates
  /**
   * By account and agent: the newest KeyPackage when the account got one. Oldest claim first, which is forgotten first.
   */
  readonly #claims = new Map<string, string>()

  constructor(perMinute: number) {
    this.#rates = new Rates(perMinute / 60, perMinute)
  }

  /** Counts a claim. Returns 0 if it is allowed, otherwise the milliseconds until it may be. `now` is monotonic. */
  take(claimant: Account, agent: AgentId, { account, held, newest, isConnected }: Supply, now: Time): number {
    const key = `${accountKey(claimant)} ${agent}`
    const isOwn = accountKey(claimant) === accountKey(account)
    if (held < LOW_KEY_PACKAGES && !isOwn && this.#claims.get(key) === newest) {
      return isConnected ? WAIT_MS.connected : WAIT_MS.away
    }
    const wait = this.#rates.take(key, now)
    if (wait > 0) return wait
    this.#claims.delete(key)
    this.#claims.set(key, newest)
    for (const oldest of this.#claims.keys()) {
      if (this.#claims.size <= MOST_CLAIMS) break
      this.#claims.delete(oldest)
    }
    return 0
  }
}
