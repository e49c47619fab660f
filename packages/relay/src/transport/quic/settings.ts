/**
 * How @currentspace/http3 is used, the same on both sides. Each line keeps a rule that a defect of version 0.9.0 or a
 * soak test taught: `portable` needs no io_uring; the flow-control windows stay at their defaults, since smaller ones
 * kill connections; datagrams of 1,350 bytes pass IPv6, tunnels and overlay networks, which the default does not.
 */
import { ALPN } from '@static/protocol'

/** Options of servers and clients alike. */
export const QUIC_SETTINGS = {
  alpn: [ALPN] as string[],
  runtimeMode: 'portable',
  fallbackPolicy: 'error',
  maxUdpPayloadSize: 1350,
} as const

/** With what code a connection or stream is closed, and what is said beside it. */
export const QUIC_CLOSE = {
  done: { code: 0, reason: '' },
  noStream: { code: 1, reason: 'no session was opened in time' },
  extraStream: { code: 2, reason: 'one session per connection' },
  tooFast: { code: 3, reason: 'more was sent than the relay can take' },
  tooSlow: { code: 4, reason: 'too much is waiting to be read' },
} as const

/** A row of `QUIC_CLOSE`. */
export type QuicClose = (typeof QUIC_CLOSE)[keyof typeof QUIC_CLOSE]
