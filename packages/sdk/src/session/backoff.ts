/**
 * Delays between attempts, chosen so that many agents do not reconnect at once. They grow exponentially with full
 * jitter, which spreads the agents over time. At the maximum delay, only the last third is random: with full jitter
 * there, twice as many would reconnect in the first second after an outage, for the same maximum wait.
 */

const GROWTH = 3
const LAST_JITTER = 1 / 3

/** A delay that grows with every failure. */
export class Backoff {
  readonly #firstMs: number
  readonly #maxMs: number
  readonly #random: () => number
  #failures = 0

  /** `random` returns numbers from 0 up to 1, exclusive. */
  constructor(firstMs: number, maxMs: number, random: () => number) {
    this.#firstMs = firstMs
    this.#maxMs = maxMs
    this.#random = random
  }

  /** The delay in milliseconds after one more failure. */
  next(): number {
    const ceiling = this.#firstMs * GROWTH ** this.#failures
    if (ceiling >= this.#maxMs) return this.#maxMs * (1 - LAST_JITTER * this.#random())
    this.#failures++
    return this.#random() * ceiling
  }

  reset(): void {
    this.#failures = 0
  }
}

/** Turns random bytes into numbers from 0 up to 1, exclusive. */
export function fractions(random: (bytes: number) => Uint8Array): () => number {
  return () => {
    const bytes = random(4)
    return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) / 2 ** 32
  }
}
