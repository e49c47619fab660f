/**
 * Counts the resets of each address, over all its connections, in windows of 10 seconds. A limit per connection is not
 * enough: a peer that is cut off could reconnect at once and continue. An address with too many is slowed for a while:
 * otherwise it could use up each window's worth of resets. It is not blocked, because others may share it.
 */
import { networkLimit, networkOf } from '@static/protocol'

/** The length of a window, in milliseconds. */
export const RESET_WINDOW_MS = 10_000

/** How long an address is slowed, in milliseconds. */
export const SLOW_FOR_MS = 30_000
/** Beyond it, the address slowed first is free again. */
const MOST_SLOWED = 10_000

/** The resets of a port. Memory is bounded by the addresses that reset something in one window. */
export class Resets {
  readonly #limit: number
  readonly #counts = new Map<string, number>()
  /** Until when each address or network is slowed, in the order they were slowed. */
  readonly #slowed = new Map<string, number>()
  #windowStart = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Counts resets of an address, in the form that limits count. */
  add(subject: string, now: number, resets = 1): void {
    this.#move(now)
    const [own = '', network] = keysOf(subject)
    this.#count(own, resets, this.#limit, now)
    if (network !== undefined) this.#count(network, resets, networkLimit(this.#limit), now)
  }

  /** The address, or else its network, if it recently reset too many streams. */
  slowed(subject: string, now: number): string | undefined {
    return keysOf(subject).find((key) => now < (this.#slowed.get(key) ?? 0))
  }

  #count(key: string, resets: number, limit: number, now: number): void {
    const count = (this.#counts.get(key) ?? 0) + resets
    this.#counts.set(key, count)
    if (count <= limit) return
    this.#slowed.delete(key)
    this.#slowed.set(key, now + SLOW_FOR_MS)
    for (const [first, until] of this.#slowed) {
      if (now < until && this.#slowed.size <= MOST_SLOWED) break
      this.#slowed.delete(first)
    }
  }

  #move(now: number): void {
    if (now - this.#windowStart <= RESET_WINDOW_MS) return
    this.#windowStart = now
    this.#counts.clear()
  }
}

function keysOf(subject: string): readonly string[] {
  const network = networkOf(subject)
  return network === undefined ? [subject] : [subject, network]
}
