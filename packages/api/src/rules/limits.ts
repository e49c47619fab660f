/**
 * Rate limits: a maximum number in a window that starts with the first one. Counted per process in a
 * table of bounded size, so a flood of addresses cannot use unbounded memory.
 */
import { LRUCache } from 'lru-cache'
import { networkLimit, networkOf, StaticError } from '@static/protocol'
import type { Clock } from '../ports.ts'
import type { Rate, Settings } from '../settings.ts'

const SUBJECTS = 100_000

/** The state of a limit for one subject, as the `RateLimit` headers report it. */
export interface RateState {
  readonly policy: string
  /** The policy as `RateLimit-Policy` states it. */
  readonly declaration: string
  readonly remaining: number
  readonly resetSeconds: number
}

/** One request as the limits see it: where it comes from, and every limit applied to it. */
export interface RateContext {
  readonly address: string
  readonly rates: RateState[]
}

interface RateWindow {
  count: number
  readonly ends: number
}

/** One limit, counted for many subjects. Where the subject is an IPv6 address, its /48 is counted, too. */
export class Limiter {
  readonly #policy: string
  readonly #declaration: string
  readonly #rate: Rate
  readonly #now: Clock
  // With `max` it would allocate all of its memory at once, which delays the start of the server.
  readonly #windows = new LRUCache<string, RateWindow>({ maxSize: SUBJECTS, sizeCalculation: () => 1 })

  constructor(policy: string, rate: Rate, now: Clock) {
    this.#policy = policy
    this.#declaration = `"${policy}";q=${rate.limit};w=${rate.seconds}`
    this.#rate = rate
    this.#now = now
  }

  /** Counts one, or throws `rate_limited` if the limit is reached. */
  spend(subject: string, context: RateContext): void {
    const now = this.#now()
    const window = this.#open(subject, now) ?? this.#start(subject, now)
    const full = this.#fullOf(subject, now)
    if (full) throw this.#refusal(full, now, context)
    this.add(subject)
    context.rates.push(this.#stateOf(window, now))
  }

  /** Counts one, even if the limit is reached. */
  add(subject: string): void {
    const now = this.#now()
    for (const key of keysOf(subject)) (this.#open(key, now) ?? this.#start(key, now)).count++
  }

  /** Throws `rate_limited` if the limit is reached, without counting. */
  check(subject: string, context: RateContext): void {
    const now = this.#now()
    const full = this.#fullOf(subject, now)
    if (full) throw this.#refusal(full, now, context)
    context.rates.push(this.#stateOf(this.#open(subject, now), now))
  }

  /** Undoes one that turned out not to count. */
  refund(subject: string): void {
    for (const key of keysOf(subject)) {
      const window = this.#open(key, this.#now())
      if (window && window.count > 0) window.count--
    }
  }

  /** How many were counted in the current window. */
  count(subject: string): number {
    return this.#open(subject, this.#now())?.count ?? 0
  }

  state(subject: string): RateState {
    const now = this.#now()
    return this.#stateOf(this.#open(subject, now), now)
  }

  /** The window of a subject, or of its /48, in which the limit is reached. */
  #fullOf(subject: string, now: number): RateWindow | undefined {
    const { limit } = this.#rate
    const [own, ofNetwork] = keysOf(subject).map((key) => this.#open(key, now))
    if (own && own.count >= limit) return own
    return ofNetwork && ofNetwork.count >= networkLimit(limit) ? ofNetwork : undefined
  }

  #open(subject: string, now: number): RateWindow | undefined {
    const window = this.#windows.get(subject)
    // A window that ends later than possible was opened before the clock was set back.
    return window && window.ends > now && window.ends <= now + this.#rate.seconds * 1000 ? window : undefined
  }

  #start(subject: string, now: number): RateWindow {
    const window = { count: 0, ends: now + this.#rate.seconds * 1000 }
    this.#windows.set(subject, window)
    return window
  }

  #stateOf(window: RateWindow | undefined, now: number): RateState {
    return {
      policy: this.#policy,
      declaration: this.#declaration,
      remaining: Math.max(0, this.#rate.limit - (window?.count ?? 0)),
      resetSeconds: window ? Math.ceil((window.ends - now) / 1000) : this.#rate.seconds,
    }
  }

  #refusal(window: RateWindow, now: number, context: RateContext): StaticError {
    const state = this.#stateOf(window, now)
    context.rates.push(state)
    const { limit, seconds } = this.#rate
    const reached = `Rate limit "${this.#policy}" reached: at most ${limit} in ${seconds} s.`
    const retryAfter = state.resetSeconds
    return StaticError.of('rate_limited', `${reached} Retry in ${retryAfter} s.`, { retryAfter })
  }
}

function keysOf(subject: string): readonly string[] {
  const network = networkOf(subject)
  return network === undefined ? [subject] : [subject, network]
}

/** Every limit of the API. */
export interface Limits {
  readonly account: Limiter
  readonly tokens: Limiter
  readonly keyCreations: Limiter
  readonly signups: Limiter
  /** Failed authentications, by address and by (prefix, address). */
  readonly failures: Limiter
  readonly passwordsPerAddress: Limiter
  readonly passwords: Limiter
}

export function makeLimits(rates: Settings['rates'], now: Clock): Limits {
  return {
    account: new Limiter('account', rates.account, now),
    tokens: new Limiter('tokens', rates.tokens, now),
    keyCreations: new Limiter('key-creations', rates.keyCreations, now),
    signups: new Limiter('sign-ups', rates.signups, now),
    failures: new Limiter('failures', rates.failures, now),
    passwordsPerAddress: new Limiter('passwords-per-address', rates.passwordsPerAddress, now),
    passwords: new Limiter('passwords', rates.passwords, now),
  }
}
