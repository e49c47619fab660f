/** What goes wrong in a group, as the error that its channel ends with. */
import { StaticError } from '@static/protocol'

/** An error of ours as it is, any other one as `mls_error`. */
export function asMlsError(error: unknown): StaticError {
  return error instanceof StaticError ? error : StaticError.of('mls_error', undefined, { cause: error })
}
