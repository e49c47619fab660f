/**
 * Counts the resets of each address, over all its connections, in windows of 10 seconds. A limit for each connection is
 * not enough: a peer that is cut off could connect again at once, and go on.
 */
import { networkLimit, networkOf } from '@static/protocol'

/** The length of a window, in milliseconds. */
export const RESET_WINDOW_MS = 10_000

/** The resets of a port. Memory is bounded by the addresses that reset something in one window. */
export class Resets {
  readonly #limit: number
  readonly #counts = new Map<string, number>()
  #windowStart = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** Counts one, of an address as limits count them. */
  add(subject: string, now: number): void {
    this.#move(now)
    for (const key of keysOf(subject)) this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
  }

  /** Whether an address, or its network, has reset too many streams in this window. */
  isOver(subject: string, now: number): boolean {
    this.#move(now)
    const [own = '', network] = keysOf(subject)
    if ((this.#counts.get(own) ?? 0) > this.#limit) return true
    return network !== undefined && (this.#counts.get(network) ?? 0) > networkLimit(this.#limit)
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
