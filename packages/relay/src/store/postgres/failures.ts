/** How a batch of a lane can fail. */
import { StaticError } from '@static/protocol'
import type { Answer } from '../call.ts'
import type { Proof } from './doubt.ts'

/** Damaged pages and indexes. */
const DAMAGE = /^XX00[12]$/

/** A batch whose COMMIT was sent: its answers if it was committed, and how to find out. */
export interface Doubt {
  readonly answers: readonly (Answer | undefined)[]
  readonly proof: Proof | undefined
}

/** The connection was lost or can no longer be used. */
export class Disconnected extends Error {
  /** Set if the transaction may have been committed. */
  readonly doubt: Doubt | undefined

  constructor(doubt: Doubt | undefined, cause: unknown) {
    super('the connection to PostgreSQL was lost', { cause })
    this.doubt = doubt
  }
}

/** There is no connection at the moment. */
export class Unreachable extends Disconnected {}

/** Whether an error is of damaged data. */
export function isDamage(error: unknown): boolean {
  if (error instanceof StaticError) return error.code === 'store_corrupt'
  return DAMAGE.test((error as { code?: string }).code ?? '')
}

/** Whether an error is of the connection, not of our code. */
export function isDisconnection(error: unknown): boolean {
  if (error instanceof StaticError) return false
  const { code, message = '' } = error as { code?: string; message?: string }
  return code === undefined ? /connection|timeout/i.test(message) : true
}

/** The error for the caller. */
export function unavailable(cause: unknown): StaticError {
  return StaticError.of('unavailable', 'The relay cannot use its store. Retry later.', { cause })
}
