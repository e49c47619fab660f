/** Delays between attempts: exponential backoff with full jitter, so that many agents do not reconnect at once. */

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
    const ceiling = Math.min(this.#maxMs, this.#firstMs * 2 ** this.#failures)
    if (ceiling < this.#maxMs) this.#failures++
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
