/** The tokens of a session: when to request one, when to renew it, and how long to wait if the source fails. */
import { AuthError, type StaticError } from '@static/protocol'
import type { Time } from '../ports/index.ts'
import { Backoff } from './backoff.ts'

export interface HeldToken {
  readonly jwt: string
  readonly expiresAt: Time
  readonly givenAt: Time
  /** Whether a session was opened with the token. */
  used: boolean
}

/** A token with less time left is not used for a dial. */
const MIN_LEFT_MS = 60_000
const MARGIN_MS = 5 * 60_000
/** Minimum time between renewals, regardless of the clocks. */
const MIN_RENEW_MS = 30_000
/** How long dials reuse a new token that the relay does not accept, because fetching another costs the API more. */
const DOUBTED_MS = 60_000
const RETRY_MS = { first: 1000, max: 9000, refused: 60_000, maxRequested: 600_000 } as const

/** The token state of a session's core. */
export class Tokens {
  /** The newest token. */
  held: HeldToken | undefined
  /** The last error of the source; undefined once it returned a token. */
  error: StaticError | undefined
  readonly #backoff: Backoff
  #asking = false
  #retryAt: Time = -Infinity
  /** When the open session needs a new token. */
  #renewAt: Time = Infinity
  #refreshing = false

  /** `random` returns numbers from 0 up to 1, exclusive. */
  constructor(random: () => number) {
    this.#backoff = new Backoff(RETRY_MS.first, RETRY_MS.max, random)
  }

  /** Whether to dial with the held token. A new one is tried regardless of its expiry, because clocks differ. */
  isUsable(now: Time): boolean {
    return this.held !== undefined && (!this.held.used || this.held.expiresAt - now >= MIN_LEFT_MS)
  }

  /** Whether to call the source now. Only one call is pending at a time. */
  ask(now: Time): boolean {
    if (this.#asking || now < this.#retryAt) return false
    this.#asking = true
    return true
  }

  given(jwt: string, expiresAt: Time, now: Time): void {
    this.#asking = false
    this.error = undefined
    this.#backoff.reset()
    this.held = { jwt, expiresAt, givenAt: now, used: false }
  }

  failed(error: StaticError, now: Time): void {
    this.#asking = false
    this.error = error
    const wait = error instanceof AuthError ? RETRY_MS.refused : this.#backoff.next()
    const requested = Math.min(RETRY_MS.maxRequested, (error.details.retryAfter ?? 0) * 1000)
    this.#retryAt = now + Math.max(wait, requested)
  }

  /** Drops a token that the relay no longer accepts. */
  drop(token: HeldToken): void {
    if (this.held === token) this.held = undefined
  }

  /**
   * The relay does not accept a new token. If its clock is the reason, the token works again once the clock is right.
   */
  doubt(token: HeldToken, now: Time): void {
    if (now - token.givenAt >= DOUBTED_MS) this.drop(token)
  }

  // ---- The open session ----

  /** The open session runs on this token, for this long by the relay's clock. */
  markInUse(token: HeldToken, expiresInMs: number, now: Time): void {
    token.used = true
    this.#refreshing = false
    this.#renewAt = Math.min(renewalTime(token.givenAt, token.expiresAt), renewalTime(now, now + expiresInMs))
  }

  /** Whether the session needs a new token now. */
  isRenewalDue(now: Time): boolean {
    return !this.#refreshing && now >= this.#renewAt
  }

  /** A token for refreshing the session, if there is a newer one than the session has. */
  startRefresh(): HeldToken | undefined {
    if (!this.held || this.held.used) return undefined
    this.#refreshing = true
    return this.held
  }

  /** The relay refused the token. The session continues until its own token expires. */
  refreshRefused(now: Time): void {
    this.#refreshing = false
    this.#renewAt = now + RETRY_MS.refused
  }

  /** When the open session next needs a renewal. */
  get renewalDue(): Time {
    if (this.#refreshing) return Infinity
    return this.held?.used === false ? this.#renewAt : Math.max(this.#renewAt, this.askDue)
  }

  /** When the source may be called next. */
  get askDue(): Time {
    return this.#asking ? Infinity : this.#retryAt
  }
}

/** When to renew a token, or a session that runs on one: after 80 % of its life, or 5 minutes before its end. */
function renewalTime(from: Time, until: Time): Time {
  const life = until - from
  return from + Math.max(MIN_RENEW_MS, life / 2, Math.min(life * 0.8, life - MARGIN_MS))
}
