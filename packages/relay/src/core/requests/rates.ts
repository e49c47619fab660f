/** Token buckets by key, in bounded memory. */
import { NETWORK_SHARES, networkOf } from '@static/protocol'
import type { Time } from '../../ports.ts'

interface Bucket {
  tokens: number
  at: Time
}

/** Limits each key to a number of operations a second, with a burst. */
export class Rates {
  readonly #perMs: number
  readonly #burst: number
  readonly #keys: number
  readonly #buckets = new Map<string, Bucket>()

  /** `keys` bounds the memory: beyond it, the key idle the longest is forgotten, which only favors that key. */
  constructor(perSecond: number, burst: number, keys = 100_000) {
    this.#perMs = perSecond / 1000
    this.#burst = burst
    this.#keys = keys
  }

  /** Takes `cost` tokens. Returns 0 if allowed, otherwise the milliseconds until it is. `now` is monotonic. */
  take(key: string, now: Time, cost = 1): number {
    const bucket = this.#bucket(key, now)
    if (bucket.tokens < cost) return Math.ceil((cost - bucket.tokens) / this.#perMs)
    bucket.tokens -= cost
    return 0
  }

  /** Takes `cost` tokens that were already spent, even if there are fewer: later requests wait for them. */
  owe(key: string, now: Time, cost: number): void {
    this.#bucket(key, now).tokens -= cost
  }

  /** The bucket of a key, filled up to now. */
  #bucket(key: string, now: Time): Bucket {
    const bucket = this.#buckets.get(key) ?? { tokens: this.#burst, at: now }
    // Moved to the end: the first key of the map is the one idle the longest.
    this.#buckets.delete(key)
    this.#buckets.set(key, bucket)
    bucket.tokens = Math.min(this.#burst, bucket.tokens + Math.max(0, now - bucket.at) * this.#perMs)
    bucket.at = now
    if (this.#buckets.size > this.#keys) {
      for (const oldest of this.#buckets.keys()) {
        this.#buckets.delete(oldest)
        break
      }
    }
    return bucket
  }
}

/** Takes `cost` tokens from an address and, for IPv6, from its /48, which has more. Returns the wait. */
export function takeFor(rates: Rates, address: string, now: Time, cost = 1): number {
  const wait = rates.take(address, now, cost)
  const network = networkOf(address)
  return wait > 0 || network === undefined ? wait : rates.take(network, now, cost / NETWORK_SHARES)
}

/** Takes `cost` tokens that an address has already spent, also from its /48. */
export function oweFor(rates: Rates, address: string, now: Time, cost: number): void {
  rates.owe(address, now, cost)
  const network = networkOf(address)
  if (network !== undefined) rates.owe(network, now, cost / NETWORK_SHARES)
}
