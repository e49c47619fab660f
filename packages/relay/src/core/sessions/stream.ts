/** Streams and the sessions on them. */
import type { ReceiptDemand } from '@static/protocol/relay'
import type { AckedPosition, ChannelId, MemberReceipt, Peer, StreamId, Time } from '../../ports.ts'
import type { StreamKind } from '../io.ts'
import type { Caller } from './session-token.ts'

/** A stream of cells, a unary call, or a stream of pushes. */
export interface Stream {
  readonly id: StreamId
  readonly peer: Peer
  /** A proxy's stream for a call becomes a call with its hello. */
  kind: StreamKind
  /** By the monotonic clock. */
  readonly openedAt: Time
  /** The address that limits count; for a proxied stream, the agent's. */
  address: string
  /** The revision of a stand-alone proxy, once it has sent ProxyHello. */
  proxyRevision: number | undefined
  /** Whether a call that came through a proxy has made its request. */
  called: boolean
  challenge: Challenge | undefined
  /** Whether an OpenSession request is being checked; until then a second one is refused. */
  opening: boolean
  session: Session | undefined
  /** The peer is not reading; log entries stay in the log until it does. */
  congested: boolean
  /** Pending requests. */
  requests: number
  requestBytes: number
}

/** The challenge that the peer must sign. */
export interface Challenge {
  readonly nonce: Uint8Array
  /** The agent's revision. */
  readonly revision: number
  /** When it was issued: by the monotonic clock for a stream, by the wall clock for a call. */
  readonly at: Time
  /** Not bound to a stream: the store remembers that it was used. */
  readonly unbound?: boolean
}

/** An authenticated agent on an open stream. */
export interface Session extends Caller {
  readonly stream: Stream
  /** When it was opened, by the store's clock. */
  readonly since: Time
  /** The same by the monotonic clock. */
  readonly begunAt: Time
  expiresAt: Time | undefined
  /** The channels being delivered. */
  readonly subscriptions: Map<ChannelId, Reading>
  /**
   * The memberships that it knows of in channels that are not being delivered: from Welcomes, and ended ones. The value
   * is the index of the entry that added the agent; the latest is last. Limited in number.
   */
  readonly stays: Map<ChannelId, number>
  /** Deliveries that lag behind the log, and whether one is being read. */
  readonly behind: Set<Reading>
  reading: boolean
  resumed: boolean
  /** Acknowledgements that wait to be stored, and how many delivered entries they cover. */
  readonly acknowledged: Map<ChannelId, AckedPosition>
  unstored: number
  readonly welcomes: Welcomes
}

/** The Welcomes of a session. */
export interface Welcomes {
  /** Whether some are pending in the store. */
  waiting: boolean
  /** Whether more have arrived during a read. */
  more: boolean
  /** The last one sent. */
  after: number
  /** Whether entries take the next turn. */
  yields: boolean
  /** Deliveries of memberships whose Welcomes are pending: their entries follow them. */
  readonly before: Set<Reading>
}

/** The latest membership in a channel that a session knows of; undefined if there is none or it was too long ago. */
export function stayOf({ stays, subscriptions }: Session, channel: ChannelId): number | undefined {
  return stays.get(channel) ?? subscriptions.get(channel)?.from
}

/** A session's position in a channel's log. */
export interface Reading {
  readonly session: Session
  readonly channel: ChannelId
  readonly channelBytes: Uint8Array
  /** The entry that added the agent. */
  readonly from: number
  /** The last index sent, and the last one in the log. */
  sent: number
  last: number
  /** Which receipts of other members it gets and, for samples, when it last got one. */
  readonly receipts: ReceiptDemand
  sampledAt: Time
  /** The receipt that it gets when its next sample is due. */
  sample: MemberReceipt | undefined
  /** The last index that was sent and is acknowledged. */
  acknowledged: number
  /**
   * How many receipts that acknowledge nothing new it may still send, when it sent the last one, and the one that
   * waits.
   */
  receiptsLeft: number
  receiptAt: Time
  heldReceipt: Uint8Array | undefined
}
