/**
 * Accounts that the operator has suspended or closed (SPEC.md, "Sessions"). A token stays valid for up to an hour, so the
 * relay asks the API every few seconds about the accounts that use it, and ends what they have open. All times here are
 * of the monotonic clock.
 */
import { MAX_CHECKED_ACCOUNTS, type Time } from '../ports.ts'
import type { Effects } from './effects.ts'

/** With the API's answer, sessions of a suspended account end well within 10 s. */
const CHECK_MS = 4000
/** Longer than the API's tokens live: after that nobody can come with one of an account that got no new ones. */
const REMEMBER_MS = 3_700_000
/** Beyond this many, the oldest are forgotten; if they come back, the next check finds them again. */
const MAX_BLOCKED = 1000
/** Accounts that came since the last check without a session: by unary calls. */
const MAX_SEEN = 10_000

/** The blocked accounts that one node knows of. */
export class BlockedAccounts {
  readonly #effects: Effects
  readonly #blocked = new Map<string, Time>()
  readonly #seen = new Set<string>()
  #checkedAt = -Infinity
  #asking = 0

  constructor(effects: Effects) {
    this.#effects = effects
  }

  /** Whether an account may not use the relay. */
  has(account: string): boolean {
    return this.#blocked.has(account)
  }

  /** An account has made a request: it is among those that the next check asks about. */
  saw(account: string): void {
    if (this.#seen.size < MAX_SEEN) this.#seen.add(account)
  }

  /** Asks about the accounts that use the relay, from time to time; `block` is told of each that newly may not. */
  tick(inUse: () => Iterable<string>, block: (account: string) => void): void {
    const { monotonic: now } = this.#effects
    if (this.#asking > 0 || now - this.#checkedAt < CHECK_MS) return
    this.#checkedAt = now
    for (const [account, since] of this.#blocked) if (now - since > REMEMBER_MS) this.#blocked.delete(account)
    const accounts = [...new Set([...inUse(), ...this.#seen, ...this.#blocked.keys()])]
    this.#seen.clear()
    for (let at = 0; at < accounts.length; at += MAX_CHECKED_ACCOUNTS) {
      const asked = accounts.slice(at, at + MAX_CHECKED_ACCOUNTS)
      this.#asking++
      this.#effects.blocked(asked, (outcome) => {
        this.#asking--
        // Without an answer everything stays as it is: an API that is down must not end the sessions of all.
        if (outcome.ok) this.#answered(asked, new Set(outcome.value), block)
      })
    }
  }

  #answered(asked: readonly string[], blocked: ReadonlySet<string>, block: (account: string) => void): void {
    for (const account of asked) {
      if (!blocked.has(account)) this.#blocked.delete(account)
      else if (!this.#blocked.has(account)) this.#blocked.set(account, this.#effects.monotonic)
      // Also one that was known: a session may have been opening while the first answer came.
      if (blocked.has(account)) block(account)
    }
    for (const oldest of this.#blocked.keys()) {
      if (this.#blocked.size <= MAX_BLOCKED) break
      this.#blocked.delete(oldest)
    }
  }
}
