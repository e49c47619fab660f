/**
 * A rate limit counted in this process, in a table of bounded size: a flood of addresses cannot use unbounded memory.
 */
import { LRUCache } from 'lru-cache'
import { networkLimit } from '@static/protocol'
import type { Clock } from '../ports.ts'
import type { Rate } from '../settings.ts'
import { keysOf, type RateContext, RatePolicy } from './rate-policy.ts'

const MAX_SUBJECTS = 100_000

interface OpenWindow {
  count: number
  readonly ends: number
}

/** One limit, counted for many subjects. If the subject is an IPv6 address, its /48 is counted as well. */
export class Limiter {
  readonly #policy: RatePolicy
  readonly #now: Clock
  // With `max`, it would allocate all of its memory at once, which delays the start of the server.
  readonly #windows = new LRUCache<string, OpenWindow>({ maxSize: MAX_SUBJECTS, sizeCalculation: () => 1 })

  constructor(name: string, rate: Rate, now: Clock) {
    this.#policy = new RatePolicy(name, rate)
    this.#now = now
  }

  /** Counts one attempt, or throws `rate_limited` if the limit is reached. */
  spend(subject: string, context: RateContext): void {
    const now = this.#now()
    const window = this.#open(subject, now) ?? this.#start(subject, now)
    const full = this.#fullOf(subject, now)
    if (full) throw this.#policy.refusal(full, now, context)
    for (const key of keysOf(subject)) (this.#open(key, now) ?? this.#start(key, now)).count++
    context.rates.push(this.#policy.stateOf(window, now))
  }

  /** The count in the current window. */
  count(subject: string): number {
    return this.#open(subject, this.#now())?.count ?? 0
  }

  /** The window of a subject, or of its /48, in which the limit is reached. */
  #fullOf(subject: string, now: number): OpenWindow | undefined {
    const { limit } = this.#policy.rate
    const [own, ofNetwork] = keysOf(subject).map((key) => this.#open(key, now))
    if (own && own.count >= limit) return own
    return ofNetwork && ofNetwork.count >= networkLimit(limit) ? ofNetwork : undefined
  }

  #open(subject: string, now: number): OpenWindow | undefined {
    const window = this.#windows.get(subject)
    // A window that ends later than possible was opened before the clock was set back.
    return window && window.ends > now && window.ends <= now + this.#policy.length ? window : undefined
  }

  #start(subject: string, now: number): OpenWindow {
    const window = { count: 0, ends: now + this.#policy.length }
    this.#windows.set(subject, window)
    return window
  }
}
