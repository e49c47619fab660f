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
