/** Attempts by an address to guess a secret: a password, or an operator's link. */
import { networkOf, StaticError } from '@static/protocol'
import type { Lane } from '../secrets/hash.ts'
import type { Limits } from './limits.ts'
import type { RateContext } from './rate-policy.ts'

/** An admitted attempt. */
export interface Attempt {
  readonly lane: Lane
  /** Takes the attempt back, because it was not a failure. */
  refund(): Promise<void>
}

/**
 * Counts an attempt as a failure of its address before it is made, so that many at once cannot slip under the limit.
 * Beyond the limit it waits for its turn: others may share the address, and one client must not block them. Throws
 * `rate_limited` if too many are waiting. Call it before any lookup, because a flood of attempts must not become a
 * flood of queries.
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
