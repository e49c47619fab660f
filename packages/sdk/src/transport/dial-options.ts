/** Options for dialing. */
import type { Shield } from '@static/quic'

export interface DialOptions {
  /** Timeout in milliseconds for the name lookup, and then for each address. Default: 5,000. */
  readonly connectTimeoutMs?: number
  /** Wraps the moment when the QUIC library reads certificates from files. */
  readonly shield?: Shield
}
