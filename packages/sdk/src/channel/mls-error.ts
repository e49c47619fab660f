/** Converts a failure in a group to the error that its channel ends with. */
import { StaticError } from '@static/protocol'

/** Returns a `StaticError` unchanged, and any other error as `mls_error`. */
export function asMlsError(error: unknown): StaticError {
  return error instanceof StaticError ? error : StaticError.of('mls_error', undefined, { cause: error })
}
