/**
 * Options of @currentspace/http3, the same on both sides. Each follows from a defect of version 0.9.0 or from a soak
 * test: `portable` needs no io_uring; the flow-control windows keep their defaults, because smaller ones kill
 * connections; datagrams of 1,350 bytes pass IPv6, tunnels and overlay networks, which the default size does not.
 */
import { ALPN } from '@static/protocol'

/** The code with which a relay closes a connection when its endpoint has no room for another. */
export const QUIC_FULL = 5

/** Settings for servers and clients. */
export const QUIC_SETTINGS = {
  alpn: [ALPN] as string[],
  runtimeMode: 'portable',
  fallbackPolicy: 'error',
  maxUdpPayloadSize: 1350,
} as const
