/** Random tests run from one fixed seed, which they print; STATIC_SEED=… tries another. */

export const SEED: number = Number(process.env['STATIC_SEED'] ?? 20_261_115)

/** A stream of numbers from 0 up to 1 (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
}
