/** Errors as sent to the program. The cause is included: the program runs on the same machine as the same user. */
import { StaticError } from '@static/protocol'
import type { Failure } from './messages.ts'

/** The wire form of an error. */
export function failureOf(error: unknown): Failure {
  const { code, message, cause, docUrl } = StaticError.from(error).toJSON()
  return { code, message, ...(docUrl !== undefined && { docUrl }), ...(cause !== undefined && { cause }) }
}
