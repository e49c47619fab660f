/** How a transport dials. */
import type { Shield } from '@static/node/quic'

export interface DialOptions {
  /** How long the name, and then each address, may take; 5 s by default. */
  readonly connectTimeoutMs?: number
  /** Around the moment in which the QUIC library reads certificates from files. */
  readonly shield?: Shield
}
