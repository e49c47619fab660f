/** Seeded randomness, in the forms that the proof needs. */
import { randomNumbers } from '@static/testkit/random'

/** Numbers from 0 to below 1. */
export type Chance = () => number

/** Makes a source; the same seed gives the same numbers. */
export function chanceOf(seed: number): Chance {
  return randomNumbers(seed)
}

/** The time to the next of independent events. */
export function untilNext(chance: Chance, perSecond: number): number {
  return -Math.log(1 - chance()) / perSecond
}

/** Sizes as those of real messages: most are small, a few are long. */
export function messageBytes(chance: Chance, longest: number): number {
  const normal = Math.sqrt(-2 * Math.log(1 - chance())) * Math.cos(2 * Math.PI * chance())
  return Math.max(1, Math.min(longest, Math.round(Math.exp(5.3 + normal))))
}

/** The same values in random order. */
export function shuffled<Value>(values: readonly Value[], chance: Chance): Value[] {
  const mixed = [...values]
  for (let at = mixed.length - 1; at > 0; at--) {
    const other = Math.floor(chance() * (at + 1))
    const value = mixed[at]!
    mixed[at] = mixed[other]!
    mixed[other] = value
  }
  return mixed
}
