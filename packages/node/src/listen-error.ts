/** Why a server cannot listen, in the same words for TCP and UDP. */
import { StaticError } from '@static/protocol'

/**
 * A `connection_error` for a place that cannot be listened on: a host and port, or a UDP port. `code` is a system error
 * code, such as EADDRINUSE, or a library's message.
 */
export function listenError(place: string, code: string, cause?: unknown): StaticError {
  const isInUse = code === 'EADDRINUSE' || /address already in use/i.test(code)
  const text = isInUse
    ? 'it is in use by another program. Stop that program, or choose another port (see `--help`).'
    : `${code}. Check the address and your permissions.`
  return StaticError.of('connection_error', `Cannot listen on ${place}: ${text}`, cause === undefined ? {} : { cause })
}
