/** How long to wait before the next try: exponential with full jitter, so that many agents do not come back at once. */

/** Grows with every failure. */
export class Backoff {
  readonly #firstMs: number
  readonly #maxMs: number
  readonly #random: () => number
  #failures = 0

  /** `random` gives numbers from 0 up to 1. */
  constructor(firstMs: number, maxMs: number, random: () => number) {
    this.#firstMs = firstMs
    this.#maxMs = maxMs
    this.#random = random
  }

  /** How long to wait after one more failure. */
  next(): number {
    const ceiling = Math.min(this.#maxMs, this.#firstMs * 2 ** this.#failures)
    if (ceiling < this.#maxMs) this.#failures++
    return this.#random() * ceiling
  }

  reset(): void {
    this.#failures = 0
  }
}

/** Numbers from 0 up to 1 out of random bytes. */
export function fractions(random: (bytes: number) => Uint8Array): () => number {
  return () => {
    const bytes = random(4)
    return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) / 2 ** 32
  }
}
