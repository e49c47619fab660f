/** Loads `@static/quic`, which is not part of the SDK: its library is native, large, and not built for every system. */
import { ConnectionError } from '@static/node/connection-error'
import type * as Quic from '@static/quic'

const MISSING =
  'QUIC needs the package @static/quic, which is not installed. Install it, or use the endpoint https://host:PORT, with the gRPC port of the relay.'

/**
 * Loads the package on first use.
 *
 * @throws {ConnectionError} `unusable` if it is not installed
 */
export async function loadQuic(): Promise<typeof Quic> {
  try {
    return await import('@static/quic')
  } catch (cause) {
    throw new ConnectionError('unusable', MISSING, cause)
  }
}
