/** A wire that carries nothing: without NATS, nodes that share a database find everything in the store. */
import type { OpenWire } from '../ports.ts'

export const NO_WIRE: OpenWire = () => ({
  connected: false,
  hears: false,
  maxBytes: 0,
  publish: () => {},
  subscribe: () => {},
  unsubscribe: () => {},
  close: () => Promise.resolve(),
})
