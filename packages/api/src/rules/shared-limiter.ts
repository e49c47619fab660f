/**
 * A rate limit that all nodes count together, in the database: a limit that protects a secret must not allow more
 * guesses because there are more nodes. An attempt is counted before it is made, so that concurrent ones cannot slip
 * under the limit, whichever node they are on.
 */
import { LRUCache } from 'lru-cache'
import { networkLimit } from '@static/protocol'
import type { AskedWindow, Clock, RateWindow, RateWindowStore } from '../ports.ts'
import type { Rate } from '../settings.ts'
import { keysOf, type RateContext, RatePolicy, type RateState } from './rate-policy.ts'

const MAX_SEEN = 100_000
/**
 * For this time, a full window is not queried again, because a flood of attempts must not become a flood of queries.
 */
const FULL_MS = 1000

/** The options for counting in the database. */
export interface SharedLimiterOptions {
  readonly windows: RateWindowStore
  readonly nameOf: (policy: string, subject: string) => string
  readonly now: Clock
}

/** A window as the database last reported it. */
interface Seen extends RateWindow {
  /** When it was found full. */
  readonly fullAt: number
}

/** One limit, counted for many subjects. If the subject is an IPv6 address, its /48 is counted as well. */
export class SharedLimiter {
  readonly #policy: RatePolicy
  readonly #windows: RateWindowStore
  readonly #nameOf: (policy: string, subject: string) => string
  readonly #now: Clock
  readonly #seen = new LRUCache<string, Seen>({ maxSize: MAX_SEEN, sizeCalculation: () => 1 })

  constructor(name: string, rate: Rate, { windows, nameOf, now }: SharedLimiterOptions) {
    this.#policy = new RatePolicy(name, rate)
    this.#windows = windows
    this.#nameOf = nameOf
    this.#now = now
  }

  /** Counts one attempt and returns the new count, or rejects with `rate_limited` if the limit is reached. */
  async spend(subject: string, context: RateContext): Promise<number> {
    const { limit } = this.#policy.rate
    // A /48 beyond its limit must not cost a query for each of its addresses.
    this.refuseIfFull(subject, context)
    const [own = subject, network] = keysOf(subject)
    const window = await this.#spendOne(own, limit, context)
    if (network !== undefined) {
      await this.#spendOne(network, networkLimit(limit), context).catch(async (error: unknown) => {
        await this.#refundOne(own)
        throw error
      })
    }
    context.rates.push(this.#policy.stateOf(window, this.#now()))
    return window.count
  }

  /** Throws `rate_limited` if this node recently found the limit reached. Makes no query. */
  refuseIfFull(subject: string, context: RateContext): void {
    for (const key of keysOf(subject)) this.#refuseIfFull(key, context)
  }

  /** Counts one attempt, even if the limit is reached. */
  async add(subject: string): Promise<void> {
    for (const key of keysOf(subject)) await this.#ask(key, Number.MAX_SAFE_INTEGER)
  }

  /** Rejects with `rate_limited` if the limit is reached, without counting. */
  async check(subject: string, context: RateContext): Promise<void> {
    const { limit } = this.#policy.rate
    const now = this.#now()
    const [own, network] = await Promise.all(
      keysOf(subject).map((key) => this.#windows.read(this.#windowOf(key, limit, now))),
    )
    if (own && own.count >= limit) throw this.#policy.refusal(own, now, context)
    if (network && network.count >= networkLimit(limit)) throw this.#policy.refusal(network, now, context)
    context.rates.push(this.#policy.stateOf(own, now))
  }

  /** Takes back an attempt that turned out not to count. */
  async refund(subject: string): Promise<void> {
    for (const key of keysOf(subject)) await this.#refundOne(key)
  }

  /** The state when this node last checked. */
  state(subject: string): RateState {
    const now = this.#now()
    return this.#policy.stateOf(this.#open(subject, now), now)
  }

  async #spendOne(subject: string, limit: number, context: RateContext): Promise<RateWindow> {
    this.#refuseIfFull(subject, context)
    const { isFull, ...window } = await this.#ask(subject, limit)
    if (isFull) throw this.#policy.refusal(window, this.#now(), context)
    return window
  }

  #refuseIfFull(key: string, context: RateContext): void {
    const now = this.#now()
    const known = this.#open(key, now)
    if (known && now >= known.fullAt && now - known.fullAt < FULL_MS) throw this.#policy.refusal(known, now, context)
  }

  async #ask(subject: string, limit: number): Promise<RateWindow & { readonly isFull: boolean }> {
    const now = this.#now()
    const { isFull, ...window } = await this.#windows.spend(this.#windowOf(subject, limit, now))
    this.#seen.set(subject, { ...window, fullAt: isFull ? now : -Infinity })
    return { ...window, isFull }
  }

  async #refundOne(subject: string): Promise<void> {
    const now = this.#now()
    const window = await this.#windows.refund(this.#windowOf(subject, 0, now))
    if (window) this.#seen.set(subject, { ...window, fullAt: -Infinity })
  }

  #windowOf(subject: string, limit: number, now: number): AskedWindow {
    const { name: policy, length } = this.#policy
    return { policy, subject: this.#nameOf(policy, subject), limit, length, now }
  }

  #open(subject: string, now: number): Seen | undefined {
    const window = this.#seen.get(subject)
    return window && window.ends > now && window.ends <= now + 2 * this.#policy.length ? window : undefined
  }
}
