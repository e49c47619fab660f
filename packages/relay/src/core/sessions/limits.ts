/** The limits of connections and streams (SPEC.md, "Limits"), and the refusal of a peer that exceeds one. */
import type { ConnectionLimit } from '../../ports.ts'
import type { RefusalDetails } from '../server-messages.ts'

/** A limit by its name in the settings, under `streams`. */
export type StreamLimit =
  | ConnectionLimit
  | 'total'
  | 'perAddress'
  | 'unauthenticatedPerAddress'
  | 'openingsPerSecond'
  | 'callsPerSecond'
  | 'clockedCells'

/** A peer refused because of a limit, for the operator. */
export interface Excess {
  readonly limit: StreamLimit
  readonly value: number
  /** The address of the peer, as the limits count it. */
  readonly address: string
}

/** Agents that are refused repeatedly increase the delay on their own. */
const RETRY_MS = 1000

/** The error for each limit: `unavailable` for limits of the whole relay, `rate_limited` for those of one address. */
const ANSWERS: Readonly<Record<StreamLimit, readonly ['unavailable' | 'rate_limited', (value: string) => string]>> = {
  connections: ['unavailable', (value) => `The relay has ${value} connections, its limit. Retry later.`],
  quicPerEndpoint: [
    'unavailable',
    (value) =>
      `No QUIC port of the relay has room: each has ${value} sessions, its limit. Retry later, or use gRPC: an https endpoint.`,
  ],
  total: ['unavailable', (value) => `The relay has ${value} open streams, its limit. Retry later.`],
  clockedCells: [
    'unavailable',
    (value) =>
      `The relay's capacity for the traffic profiles strict and private, ${value} cells a second, is used up. Retry later, or ask its operator for more.`,
  ],
  connectionsPerAddress: [
    'rate_limited',
    (value) => `This address has ${value} connections to the relay, the limit. Close some, or retry later.`,
  ],
  perAddress: [
    'rate_limited',
    (value) => `This address has ${value} open streams, the limit. Close some, or retry later.`,
  ],
  unauthenticatedPerAddress: [
    'rate_limited',
    (value) => `This address has ${value} streams without an open session, the limit. Retry later.`,
  ],
  openingsPerSecond: [
    'rate_limited',
    (value) => `This address opens more than ${value} sessions a second, the limit. Retry later.`,
  ],
  callsPerSecond: [
    'rate_limited',
    (value) => `This address makes more than ${value} calls a second, the limit. Retry later.`,
  ],
}

/** The answer to a peer that exceeds a limit. `waitMs` is how long it should wait, if known. */
export function excessRefusal(limit: StreamLimit, value: number, waitMs = 0): RefusalDetails {
  const [refused, text] = ANSWERS[limit]
  return { refused, retryAfterMs: Math.max(waitMs, RETRY_MS), message: text(value.toLocaleString('en-US')) }
}

/** The answer to a guest that finds no place or has lost its place: the rest is for accounts. */
export function guestRefusal(limit: 'total' | 'quicPerEndpoint'): RefusalDetails {
  const message =
    limit === 'total'
      ? 'The relay has no room for another guest. Retry later, or connect with an API key.'
      : 'No QUIC port of the relay has room for another guest. Retry later, or use gRPC: an https endpoint.'
  return { refused: 'unavailable', retryAfterMs: RETRY_MS, message }
}

/** The answer from a full QUIC port while another one has room. */
export function redirectRefusal(value: number, redirectPort: number): RefusalDetails {
  const message = `This port has ${value.toLocaleString('en-US')} sessions, its limit. Dial port ${redirectPort}.`
  return { refused: 'unavailable', redirectPort, message }
}
