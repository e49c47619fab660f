/** Properties are checked from the seed of the run, which they print. */
import type { TestContext } from 'node:test'
import { SEED } from '@static/testkit/random'
import * as fc from 'fast-check'

/** Checks a property with the seed. */
export function check<Values>(t: TestContext, numRuns: number, property: fc.IProperty<Values>): void {
  t.diagnostic(`seed ${SEED}, ${numRuns} runs`)
  fc.assert(property, { seed: SEED, numRuns })
}
