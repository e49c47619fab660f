/**
 * Reproducible random choices. A test prints its seed; `STATIC_SEED=…` runs it again with that seed or with another
 * one.
 */

/** The seed of this run: the one given by `STATIC_SEED`, else the test's own. */
export function seedOf(standard: number): number {
  return Number(process.env['STATIC_SEED'] ?? standard)
}

/** For tests without their own seed. */
export const SEED: number = seedOf(20_261_115)

/** Numbers from 0 to below 1 (mulberry32), determined by the seed. */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
}

/** Whole numbers from 0 to below a limit. */
export type Below = (limit: number) => number

/** The same generator, for whole numbers. */
export function randomBelow(seed: number): Below {
  const random = randomNumbers(seed)
  return (limit) => Math.floor(random() * limit)
}
