/** The presentation of a rate limit, in the `RateLimit` headers and in refusals. */
import { networkOf, StaticError } from '@static/protocol'
import type { RateWindow } from '../ports.ts'
import type { Rate } from '../settings.ts'

/** The state of a limit for one subject, as the `RateLimit` headers report it. */
export interface RateState {
  readonly policy: string
  /** The policy as `RateLimit-Policy` states it. */
  readonly declaration: string
  readonly remaining: number
  readonly resetSeconds: number
}

/** One request as limits see it: its origin, and every limit applied to it. */
export interface RateContext {
  readonly address: string
  readonly rates: RateState[]
  /**
   * Set if a page of the API's own origin made the request: contains the secret of its device cookie, if it has one.
   */
  readonly browser?: { readonly device: string | undefined }
}

/** One limit by name. */
export class RatePolicy {
  readonly name: string
  readonly rate: Rate
  readonly #declaration: string

  constructor(name: string, rate: Rate) {
    this.name = name
    this.rate = rate
    this.#declaration = `"${name}";q=${rate.limit};w=${rate.seconds}`
  }

  /** The length of a window, in milliseconds. */
  get length(): number {
    return this.rate.seconds * 1000
  }

  stateOf(window: RateWindow | undefined, now: number): RateState {
    return {
      policy: this.name,
      declaration: this.#declaration,
      remaining: Math.max(0, this.rate.limit - (window?.count ?? 0)),
      resetSeconds: window ? Math.ceil((window.ends - now) / 1000) : this.rate.seconds,
    }
  }

  /** The error when a limit is reached. */
  refusal(window: RateWindow, now: number, context: RateContext): StaticError {
    const state = this.stateOf(window, now)
    context.rates.push(state)
    const { limit, seconds } = this.rate
    const reached = `Rate limit "${this.name}" reached: at most ${limit} in ${seconds} s.`
    const retryAfter = state.resetSeconds
    return StaticError.of('rate_limited', `${reached} Retry in ${retryAfter} s.`, { retryAfter })
  }
}

/** The keys that a subject counts towards: itself and, if it is an IPv6 address, its /48. */
export function keysOf(subject: string): readonly string[] {
  const network = networkOf(subject)
  return network === undefined ? [subject] : [subject, network]
}
