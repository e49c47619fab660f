/**
 * Accounts that are suspended, closed or unknown to the API (SPEC.md, "Sessions"). A token stays valid for up to an hour, so
 * the relay asks the API every few seconds about the accounts that use it, and ends their sessions. All times here are
 * from the monotonic clock.
 */
import { type AgentId, type BlockedAnswer, type BlockReason, MAX_CHECKED_ACCOUNTS, type Time } from '../../ports.ts'
import type { Effects } from '../effects.ts'
import type { Caller } from '../sessions/session-token.ts'

/** With the API's answer, sessions of a suspended account end well within 10 s. */
const CHECK_MS = 4000
/** Longer than the API's tokens are valid: after that, a blocked account has no valid token left. */
const REMEMBER_MS = 3_700_000
/** Beyond it, the oldest are forgotten; if they return, the next check finds them again. */
const MAX_BLOCKED = 1000
/** Maximum number of accounts seen in unary calls, without a session, since the last check. */
const MAX_SEEN = 10_000

/**
 * Number of agents whose account is remembered. Beyond it, the one whose last session opened longest ago is forgotten.
 */
const MAX_AGENTS = 100_000

/** The blocked accounts known to one node. */
export class BlockedAccounts {
  readonly #effects: Effects
  readonly #blocked = new Map<string, { readonly reason: BlockReason; readonly since: Time }>()
  readonly #seen = new Set<string>()
  readonly #accounts = new Map<AgentId, string>()
  #checkedAt = -Infinity
  #asking = 0

  constructor(effects: Effects) {
    this.#effects = effects
  }

  /** Why an account may not use the relay; undefined if it may. */
  reason(account: string): BlockReason | undefined {
    return this.#blocked.get(account)?.reason
  }

  /** An agent opens a session. A suspended account's agents must not come back as guests, so theirs is remembered. */
  opened({ agent, account }: Pick<Caller, 'agent' | 'account'>): void {
    if (!account) return
    this.#accounts.delete(agent)
    this.#accounts.set(agent, account.id)
    const [oldest] = this.#accounts.keys()
    if (this.#accounts.size > MAX_AGENTS && oldest !== undefined) this.#accounts.delete(oldest)
  }

  /** The account that an agent acts for or, as a guest, last acted for. */
  accountOf({ agent, account }: Pick<Caller, 'agent' | 'account'>): string | undefined {
    return account?.id ?? this.#accounts.get(agent)
  }

  /** Why an agent may not use the relay; undefined if it may. Includes its account in the next check. */
  stops(caller: Pick<Caller, 'agent' | 'account'>): BlockReason | undefined {
    const account = this.accountOf(caller)
    if (account === undefined) return undefined
    const reason = this.reason(account)
    if (reason === undefined) this.saw(account)
    return reason
  }

  /** An account has made a request: includes it in the next check. */
  saw(account: string): void {
    if (this.#seen.size < MAX_SEEN) this.#seen.add(account)
  }

  /** Asks the API about the accounts in use, every `CHECK_MS`; calls `block` for each blocked one. */
  tick(inUse: () => Iterable<string>, block: (account: string, reason: BlockReason) => void): void {
    const { monotonic: now } = this.#effects
    if (this.#asking > 0 || now - this.#checkedAt < CHECK_MS) return
    this.#checkedAt = now
    for (const [account, { since }] of this.#blocked) if (now - since > REMEMBER_MS) this.#blocked.delete(account)
    const accounts = [...new Set([...inUse(), ...this.#seen, ...this.#blocked.keys()])]
    this.#seen.clear()
    for (let at = 0; at < accounts.length; at += MAX_CHECKED_ACCOUNTS) {
      const asked = accounts.slice(at, at + MAX_CHECKED_ACCOUNTS)
      this.#asking++
      this.#effects.blocked(asked, (outcome) => {
        this.#asking--
        // Without an answer nothing changes: an API that is down must not end everyone's sessions.
        if (outcome.ok) this.#answered(asked, outcome.value, block)
      })
    }
  }

  #answered(
    asked: readonly string[],
    { suspended, unknown }: BlockedAnswer,
    block: (account: string, reason: BlockReason) => void,
  ): void {
    const reasons = new Map<string, BlockReason>()
    for (const account of suspended) reasons.set(account, 'account_suspended')
    for (const account of unknown) reasons.set(account, 'account_unknown')
    for (const account of asked) {
      const reason = reasons.get(account)
      if (reason === undefined) {
        this.#blocked.delete(account)
        continue
      }
      const { since } = this.#blocked.get(account) ?? { since: this.#effects.monotonic }
      this.#blocked.set(account, { reason, since })
      // Even for an account that was already blocked: a session may have been opening when the first answer arrived.
      block(account, reason)
    }
    for (const oldest of this.#blocked.keys()) {
      if (this.#blocked.size <= MAX_BLOCKED) break
      this.#blocked.delete(oldest)
    }
  }
}
