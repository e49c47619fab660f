/** What transports and the relay ask of each other: streams of cells, unary calls, subscriptions. */
import type { Pace, WireForm } from '@static/protocol'
import type { ClientMessage, ServerMessage } from '@static/protocol/relay'

/** A stream of cells, or one unary call; unique in the process. */
export type StreamId = number

/** Who is at the other end, as far as the transport knows. */
export interface Peer {
  readonly transport: 'quic' | 'grpc'
  readonly form: WireForm
  /** For the limits per address: an IPv4 or IPv6 address as text. */
  readonly address: string
  /** A stand-alone proxy, known by its client certificate. */
  readonly proxy: boolean
  /** The endpoint is full: the UDP port of the same host that has room. */
  readonly redirectPort?: number
}

/** A certificate with its chain, and its private key, as PEM. */
export interface Certificate {
  readonly cert: string
  readonly key: string
}

/** Takes what comes by session streams. */
export interface StreamHandler {
  /** A stream has begun. Undefined: it is turned away, and the transport ends it. */
  opened(peer: Peer): StreamId | undefined
  /** The chunk is the handler's to keep. */
  received(stream: StreamId, chunk: Uint8Array): void
  /** The last word on a stream, however it ended; not called for streams that the handler closed itself. */
  closed(stream: StreamId): void
}

/** Carries session streams. */
export interface Transport {
  /**
   * Writes the same cells to each of the streams; the buffer must not change any more. On a clock, urgent ones go before
   * the others: they stand for themselves.
   */
  write(streams: readonly StreamId[], cells: Uint8Array, urgent?: boolean): void
  /** From now on the stream leaves on a clock, one cell at each tick. */
  pace(stream: StreamId, pace: Pace): void
  /** Ends a stream after what was written. */
  end(stream: StreamId): void
  /** Stops listening, ends all streams and frees the port. */
  stop(): Promise<void>
}

/** Takes unary calls and subscriptions; the message carries the session token. */
export interface CallHandler {
  /** Whether this can be a session token: only its holders may send long requests. */
  knows(token: string): boolean
  /** A refusal is an answer too. Rejects only when the relay is out of reach, or the caller has gone. */
  call(peer: Peer, message: ClientMessage, signal?: AbortSignal): Promise<ServerMessage>
  /**
   * A stream of pushes; the message is a `resume`, its answer (or an error, then the end) comes first. `write` tells
   * false when the receiver should be spared for now; `room` on what is returned says that it takes more.
   */
  subscribe(peer: Peer, message: ClientMessage, sink: PushSink): Subscription
}

/** Where the messages of a subscription go. */
export interface PushSink {
  write(message: ServerMessage): boolean
  end(): void
}

/** A subscription under way. */
export interface Subscription {
  room(): void
  close(): void
}

/** What `/health` and grpc.health.v1 tell. */
export interface Health {
  readonly ready: boolean
  readonly name: string
  readonly version: string
}
