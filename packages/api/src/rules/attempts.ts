/** Attempts that an address makes at a secret: a password, or the link of an operator. */
import { networkOf, StaticError } from '@static/protocol'
import type { Lane } from '../secrets/hash.ts'
import type { Limits } from './limits.ts'
import type { RateContext } from './rate-policy.ts'

/** An attempt that may be made. */
export interface Attempt {
  readonly lane: Lane
  /** It turned out not to be a failure. */
  refund(): Promise<void>
}

/**
 * Counts an attempt as a failure of its address before it is made, so that many at once cannot slip under the limit.
 * Beyond the limit it waits for its turn: others may share the address, and one client there must not stop them. Throws
 * `rate_limited` if too many wait. Call it before anything is looked up: a flood must not become one of queries.
 */
export async function admitAttempt({ failures, slowedAttempts }: Limits, context: RateContext): Promise<Attempt> {
  const { address } = context
  let tries: number
  try {
    tries = await failures.spend(address, context)
  } catch (error) {
    if (StaticError.from(error).code !== 'rate_limited') throw error
    if (!(await slowedAttempts.turn(networkOf(address) ?? address))) throw error
    return { lane: 'suspect', refund: async () => {} }
  }
  return { lane: tries === 1 ? 'clean' : 'suspect', refund: () => failures.refund(address) }
}
