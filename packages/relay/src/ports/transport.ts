/** The interface between transports and the relay: streams of cells, unary calls, subscriptions. */
import type { BusState } from './bus.ts'
import type { Pace } from '@static/protocol'
import type { WireForm } from '@static/protocol/envelope'
import type { ApiState } from './api.ts'
import type { Durability } from './store.ts'
import type { ClientMessage, ServerMessage } from '@static/protocol/relay'

/** A stream of cells or one unary call; unique in the process. */
export type StreamId = number

/** The peer, as far as the transport knows it. */
export interface Peer {
  readonly transport: 'quic' | 'grpc'
  readonly form: WireForm
  /** For the limits per address: an IPv4 or IPv6 address. */
  readonly address: string
  /** Whether it is a stand-alone proxy, identified by its client certificate. */
  readonly proxy: boolean
  /** The QUIC endpoint that it came to, by its UDP port, and all those of the relay. */
  readonly endpoint?: { readonly port: number; readonly ports: readonly number[] }
  /** Set if its connection is over a limit: then it only gets a refusal. */
  readonly full?: FullTransport
}

/** A limit of connections, by its name in the settings, under `streams`. */
export type ConnectionLimit = 'connections' | 'connectionsPerAddress' | 'quicPerEndpoint'

/** A connection limit that has been reached. */
export interface FullTransport {
  readonly limit: ConnectionLimit
  readonly value: number
}

/** A certificate with its chain, and its private key, as PEM. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

/** Receives what arrives on session streams. */
export interface StreamHandler {
  /** A stream was opened. If this returns undefined, the transport ends the stream. */
  opened(peer: Peer): StreamId | undefined
  /** The handler may keep the chunk. */
  received(stream: StreamId, chunk: Uint8Array): void
  /** The stream has ended. Not called for streams that the handler ended itself. */
  closed(stream: StreamId): void
}

/** Carries session streams. */
export interface Transport {
  /**
   * Writes the same cells to each of the streams; the buffer must not change afterwards. On a clocked stream, urgent
   * cells are sent before the others: they are self-contained.
   */
  write(streams: readonly StreamId[], cells: Uint8Array, urgent?: boolean): void
  /** Puts the stream on a clock: one cell at each tick from now on. */
  pace(stream: StreamId, pace: Pace): void
  /** The peer is authenticated: its connection no longer gives way to others. */
  known?(stream: StreamId): void
  /** Ends a stream after what was written. */
  end(stream: StreamId): void
  /** Stops listening, ends all streams and frees the port. */
  stop(): Promise<void>
}

/** Handles unary calls and subscriptions. The message carries the session token. */
export interface CallHandler {
  /** Whether this can be a session token: only holders of one may send long requests. */
  knows(token: string): boolean
  /**
   * Resolves when it is the turn of a caller whose request takes long to decode; never if the caller has disconnected
   * by then.
   */
  turn(peer: Peer, isGone: () => boolean): Promise<void>
  /** Resolves even with a refusal. Rejects only if the relay is unreachable or the caller has disconnected. */
  call(peer: Peer, message: ClientMessage, signal?: AbortSignal): Promise<ServerMessage>
  /**
   * Opens a stream of pushes. The message is a `resume`; its response comes first, or an error followed by the end.
   * `write` returns false if the receiver is congested; call `room` on the returned subscription when it can take more.
   */
  subscribe(peer: Peer, message: ClientMessage, sink: PushSink): Subscription
}

/** Receives the messages of a subscription. */
export interface PushSink {
  write(message: ServerMessage): boolean
  end(): void
}

/** An open subscription. */
export interface Subscription {
  room(): void
  close(): void
}

/** What `/health` and grpc.health.v1 report. */
export interface Health {
  /** Whether it can store and is not stopping. */
  readonly ready: boolean
  /** Not for a proxy, which uses none. */
  readonly api?: ApiState | undefined
  /** The bus to other nodes; undefined if there are none. */
  readonly bus?: BusState | undefined
  /** Not for a proxy, which has none. */
  readonly store?: { readonly durability: Durability; readonly clockOffsetMs: number | undefined } | undefined
  /** Where agents reach the port of files, if it is open; the URL may be empty. */
  readonly files?: { readonly port: number; readonly url: string } | undefined
  readonly name: string
  readonly version: string
}
