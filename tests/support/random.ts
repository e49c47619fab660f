/** Chance that can be repeated: a run prints its seed, and the same seed gives the same choices. */

/** Numbers from a seed. */
export interface Random {
  readonly seed: number
  /** A whole number from 0 to below `limit`. */
  below(limit: number): number
}

/** The seed of this run: `STATIC_TEST_SEED` to repeat one, else the fixed one of the test. */
export function seedOf(standard: number): number {
  const given = process.env['STATIC_TEST_SEED']
  return given === undefined ? standard : Number(given)
}

/** Makes a generator (mulberry32). */
export function makeRandom(seed: number): Random {
  let state = seed >>> 0
  return {
    seed,
    below(limit) {
      state = (state + 0x6d2b79f5) >>> 0
      let mixed = Math.imul(state ^ (state >>> 15), state | 1)
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
      return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit)
    },
  }
}
