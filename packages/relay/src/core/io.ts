/** The inputs and effects of the core: the whole relay without sockets, clock or randomness. */
import type { Hash, StaticError, TrafficProfileName } from '@static/protocol'
import type { AckRequest, ClientMessage, ServerMessage } from '@static/protocol/relay'
import type {
  Account,
  AgentId,
  News,
  NodeId,
  PartAnswer,
  PartAsk,
  Peer,
  StoreRequest,
  StoreEvent,
  StoreOperation,
  StreamId,
  Topic,
} from '../ports.ts'
import type { Excess } from './sessions/limits.ts'

/** An event from outside the core. */
export type Input =
  | {
      readonly type: 'opened'
      readonly stream: StreamId
      readonly peer: Peer
      /** A stream of cells, one unary call, or the push stream of a unary session. */
      readonly kind: StreamKind
    }
  | {
      readonly type: 'received'
      readonly stream: StreamId
      readonly message: ClientMessage
      /** Its length on the wire: the size of pending requests is limited. */
      readonly bytes: number
    }
  /** An acknowledgement in its own cell: it gets no response. */
  | { readonly type: 'acknowledged'; readonly stream: StreamId; readonly ack: AckRequest }
  /** The peer violated the wire protocol. */
  | { readonly type: 'malformed'; readonly stream: StreamId; readonly error: StaticError }
  | { readonly type: 'closed'; readonly stream: StreamId }
  /** Whether the peer keeps up with reading: log entries stay in the log until it does. */
  | { readonly type: 'congested' | 'drained'; readonly stream: StreamId }
  /** The peer has sent more requests than may wait. */
  | { readonly type: 'flooded'; readonly stream: StreamId }
  /** The peer read nothing for too long, or did not answer a ping. */
  | { readonly type: 'stalled'; readonly stream: StreamId }
  /** An effect with this id is done. */
  | { readonly type: 'done'; readonly id: number; readonly outcome: Outcome<unknown> }
  /** A request for a part of a file by HTTP, that its bytes are on disk, and its end. */
  | { readonly type: 'partAsked'; readonly id: number; readonly ask: PartAsk }
  | { readonly type: 'partStored'; readonly id: number; readonly checksum: number }
  | { readonly type: 'partOver'; readonly id: number }
  | { readonly type: 'event'; readonly event: StoreEvent }
  /** News from another node. */
  | { readonly type: 'news'; readonly news: News; readonly from: NodeId }
  /** News from other nodes may have been missed. */
  | { readonly type: 'doubt' }
  /** Time has passed. */
  | { readonly type: 'tick' }
  /** This node cannot serve now: sessions must reconnect to another one. */
  | { readonly type: 'disperse' }
  /** The relay is about to stop: sessions must reconnect. */
  | { readonly type: 'drain' }

export type StreamKind = 'session' | 'call' | 'subscribe'

/** How an effect ended. */
export type Outcome<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly error: StaticError }

/** An opened session, for the operator's log. */
export interface SessionNotice {
  readonly agent: AgentId
  /** Undefined for a guest. */
  readonly account: string | undefined
  readonly address: string
  readonly transport: 'quic' | 'grpc' | 'proxy'
}

/** An action for the outside to take. */
export type Effect =
  | {
      readonly type: 'send'
      readonly streams: readonly StreamId[]
      readonly message: ServerMessage
      /** For an answer: the time since its request arrived. */
      readonly tookMs: number | undefined
    }
  /** An agent has opened a session. */
  | { readonly type: 'began'; readonly stream: StreamId; readonly session: SessionNotice }
  /** Answers a request for a part of a file. */
  | { readonly type: 'part'; readonly id: number; readonly answer: PartAnswer }
  /** Ends a stream once everything sent to it has gone out. */
  | { readonly type: 'end'; readonly stream: StreamId }
  /** An error that is logged but not reported to the peer. */
  | { readonly type: 'report'; readonly error: unknown }
  /** A peer was refused because of a limit. */
  | { readonly type: 'excess'; readonly excess: Excess }
  /** The longest envelope that the peer may send from now on. */
  | { readonly type: 'limit'; readonly stream: StreamId; readonly bytes: number }
  /** From now on, the stream is shaped according to the session's profile. */
  | {
      readonly type: 'shape'
      readonly stream: StreamId
      readonly traffic: TrafficProfileName
      readonly cellsPerSecond: number
    }
  /** Sends news to other nodes. */
  | { readonly type: 'publish'; readonly topic: Topic; readonly news: News }
  /** Subscribes to a topic, or unsubscribes. */
  | { readonly type: 'watch'; readonly topic: Topic; readonly on: boolean }
  | StoreEffect
  | { readonly type: 'verify'; readonly id: number; readonly jwt: string }
  | { readonly type: 'lease'; readonly id: number; readonly account: Account }
  /** Asks which of the accounts are suspended, closed or unknown. */
  | { readonly type: 'blocked'; readonly id: number; readonly accounts: readonly string[] }
  | ({ readonly type: 'settle'; readonly id: number } & Settlement)

/** Totals of a lease so far: how much was spent, and how much by each key (by key id). */
export interface Settlement {
  readonly lease: string
  readonly spent: number
  readonly final: boolean
  readonly keys: Readonly<Record<string, number>>
}

/** One operation for the store. */
export type StoreEffect = {
  [Name in StoreOperation]: {
    readonly type: 'store'
    readonly id: number
    readonly name: Name
    readonly request: StoreRequest<Name>
  }
}[StoreOperation]

/** Cryptography, which the core does not do itself. */
export interface CoreCrypto {
  readonly hash: Hash
  /** Ed25519. False for anything that is not a valid signature. */
  readonly verify: (publicKey: Uint8Array, bytes: Uint8Array, signature: Uint8Array) => boolean
  /** HMAC-SHA-256. */
  readonly mac: (key: Uint8Array, bytes: Uint8Array) => Uint8Array
  /** In constant time. */
  readonly equal: (a: Uint8Array, b: Uint8Array) => boolean
  readonly random: (bytes: number) => Uint8Array
}
