/** Streams and the sessions on them. */
import type { ChannelId, Peer, StreamId, Time } from '../ports.ts'
import type { StreamKind } from './io.ts'
import type { Caller } from './session-token.ts'

/** A stream of cells, a unary call, or a stream of pushes. */
export interface Stream {
  readonly id: StreamId
  readonly peer: Peer
  readonly kind: StreamKind
  /** By the monotonic clock. */
  readonly openedAt: Time
  /** What the limits per address count by; a proxy tells the agent's. */
  address: string
  /** The revision that a stand-alone proxy speaks, once it has said hello. */
  proxyRevision: number | undefined
  challenge: Challenge | undefined
  /** An opening is being checked: no second one meanwhile. */
  opening: boolean
  session: Session | undefined
  /** The peer does not take what it is sent; log entries wait in the log. */
  congested: boolean
  /** Requests that wait for their answers. */
  requests: number
  requestBytes: number
}

/** What the peer must sign. */
export interface Challenge {
  readonly nonce: Uint8Array
  /** The agent's revision. */
  readonly revision: number
  /** When it was given: by the monotonic clock for a stream, by the wall clock for a call. */
  readonly at: Time
}

/** An agent with a stream open. */
export interface Session extends Caller {
  readonly stream: Stream
  expiresAt: Time | undefined
  /** The channels that are delivered. */
  readonly subscriptions: Map<ChannelId, Reading>
  /** How far channels may be acknowledged that are not delivered: a Welcome has come, or the membership has ended. */
  readonly sent: Map<ChannelId, number>
  /** Deliveries that wait in the log, and whether one is being read. */
  readonly behind: Set<Reading>
  reading: boolean
  resumed: boolean
  /** Acknowledgements that wait for the next tick. */
  readonly acknowledged: Map<ChannelId, number>
  /** Whether Welcomes wait in the store, and the last that was sent. */
  readonly welcomes: { waiting: boolean; more: boolean; after: number }
}

/** How far a session has got in a channel's log. */
export interface Reading {
  readonly session: Session
  readonly channel: ChannelId
  readonly channelBytes: Uint8Array
  /** The last index that was sent, and the last one that is there. */
  sent: number
  last: number
}
