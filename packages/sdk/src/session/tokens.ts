/** The tokens of a session: when one is asked for, when it is renewed, and how long to wait when the source fails. */
import { AuthError, type StaticError } from '@static/protocol'
import type { Time } from '../ports.ts'
import { Backoff } from './backoff.ts'

/** A token that was given. */
export interface HeldToken {
  readonly jwt: string
  readonly expiresAt: Time
  readonly givenAt: Time
  /** A session has opened with it. */
  used: boolean
}

/** A token with less than this left is not worth a dial. */
const MIN_LEFT_MS = 60_000
const MARGIN_MS = 5 * 60_000
/** Whatever clocks say, tokens are not renewed more often. */
const MIN_RENEW_MS = 30_000
const RETRY_MS = { first: 1000, max: 30_000, refused: 60_000, maxTold: 600_000 } as const

/** What the core knows about tokens. */
export class Tokens {
  /** The newest one. */
  held: HeldToken | undefined
  /** Why the source last failed, if it has not given a token since. */
  error: StaticError | undefined
  readonly #backoff: Backoff
  #asking = false
  #retryAt: Time = -Infinity
  /** When the open session needs a new one. */
  #renewAt: Time = Infinity
  #refreshing = false

  /** `random` gives numbers from 0 up to 1. */
  constructor(random: () => number) {
    this.#backoff = new Backoff(RETRY_MS.first, RETRY_MS.max, random)
  }

  /** Whether to dial with the token that is here. A new one is tried whatever its time says: clocks differ. */
  isUsable(now: Time): boolean {
    return this.held !== undefined && (!this.held.used || this.held.expiresAt - now >= MIN_LEFT_MS)
  }

  /** Whether the source is asked now; once until it has answered. */
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
    const told = Math.min(RETRY_MS.maxTold, (error.details.retryAfter ?? 0) * 1000)
    this.#retryAt = now + Math.max(wait, told)
  }

  /** The relay did not take it, or will not any more. */
  drop(token: HeldToken): void {
    if (this.held === token) this.held = undefined
  }

  // ---- Of the open session ----

  /** The open session lives by this token, so long by the relay's clock. */
  living(token: HeldToken, expiresInMs: number, now: Time): void {
    token.used = true
    this.#refreshing = false
    this.#renewAt = Math.min(renewalTime(token.givenAt, token.expiresAt), renewalTime(now, now + expiresInMs))
  }

  /** Whether the session needs a new one now. */
  isRenewalDue(now: Time): boolean {
    return !this.#refreshing && now >= this.#renewAt
  }

  /** A token to refresh the session with, when there is one that it does not live by. */
  startRefresh(): HeldToken | undefined {
    if (!this.held || this.held.used) return undefined
    this.#refreshing = true
    return this.held
  }

  /** The relay did not take it: the session goes on as long as it lives. */
  refreshRefused(now: Time): void {
    this.#refreshing = false
    this.#renewAt = now + RETRY_MS.refused
  }

  /** When something is due for the open session. */
  get renewalDue(): Time {
    if (this.#refreshing) return Infinity
    return this.held?.used === false ? this.#renewAt : Math.max(this.#renewAt, this.askDue)
  }

  /** When the source can be asked. */
  get askDue(): Time {
    return this.#asking ? Infinity : this.#retryAt
  }
}

/** When a token, or a session that lives by one, is renewed: after 80 % of its life, or 5 minutes before its end. */
function renewalTime(from: Time, until: Time): Time {
  const life = until - from
  return from + Math.max(MIN_RENEW_MS, life / 2, Math.min(life * 0.8, life - MARGIN_MS))
}
