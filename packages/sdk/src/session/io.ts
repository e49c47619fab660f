/** What goes into a session's core and what comes out: the agent's side of the wire without socket, clock or chance. */
import type { Hash, Pace, StaticError, TrafficProfileName, WireForm } from '@static/protocol'
import type { AckPosition } from '@static/protocol/relay'
import type { Outcome, RequestBody, ServerBody, SessionInfo, Time } from '../ports.ts'

/** By which transport. */
export type Way = SessionInfo['way']
/** A stream that was dialled, counted from 1. */
export type StreamNumber = number
/** How far a channel was read. */
export type Position = Pick<AckPosition, 'channelId' | 'index'>

/** The wire form of each way. */
export const FORMS: Readonly<Record<Way, WireForm>> = { quic: 'cbor', grpc: 'protobuf' }

/** What happened outside. `Key` is how the caller knows its requests again. */
export type Input<Key> =
  | { readonly type: 'start' }
  /** A stream is there, to the relay whose certificate has this name. */
  | { readonly type: 'dialled'; readonly stream: StreamNumber; readonly serverName: string }
  | {
      readonly type: 'dialFailed'
      readonly stream: StreamNumber
      readonly error: StaticError
      /** Somebody answered whose certificate is not to be trusted: another way would not be better. */
      readonly untrusted: boolean
    }
  | { readonly type: 'data'; readonly stream: StreamNumber; readonly bytes: Uint8Array }
  | { readonly type: 'streamClosed'; readonly stream: StreamNumber; readonly reason: StaticError | undefined }
  | { readonly type: 'token'; readonly jwt: string; readonly expiresAt: Time }
  | { readonly type: 'tokenFailed'; readonly error: StaticError }
  | { readonly type: 'request'; readonly key: Key; readonly body: RequestBody }
  | { readonly type: 'ack'; readonly positions: readonly Position[] }
  | { readonly type: 'hold' | 'release' }
  /** The time of the last `wakeAt` has come. */
  | { readonly type: 'tick' }
  | { readonly type: 'close' }

/** What is to be done outside, in order. */
export type Effect<Key> =
  /** Dials; at another port of the same host when one is given. */
  | { readonly type: 'dial'; readonly stream: StreamNumber; readonly way: Way; readonly port: number | undefined }
  /** Urgent cells stand for themselves: on a clock they leave before the others. */
  | { readonly type: 'write'; readonly stream: StreamNumber; readonly cells: Uint8Array; readonly urgent: boolean }
  /** From now on the stream leaves on a clock. */
  | { readonly type: 'pace'; readonly stream: StreamNumber; readonly pace: Pace }
  /** Ends a stream after what was written; nothing of it is heard any more. */
  | { readonly type: 'end'; readonly stream: StreamNumber }
  /** Fetches a token; one at a time. */
  | { readonly type: 'askToken' }
  | { readonly type: 'outcome'; readonly key: Key; readonly outcome: Outcome }
  | { readonly type: 'opened'; readonly info: SessionInfo }
  | { readonly type: 'push'; readonly body: ServerBody }
  | { readonly type: 'lost'; readonly reason: StaticError }
  | { readonly type: 'pin'; readonly endpoint: string; readonly relayId: Uint8Array }
  /** Ticks at this time, which is earlier than any that still stands. */
  | { readonly type: 'wakeAt'; readonly at: Time }
  /** No session could be opened at all: the core is closed. */
  | { readonly type: 'firstFailed'; readonly error: StaticError }

/** The agent's key and what the core does not do itself. */
export interface Signer {
  /** Ed25519, 32 bytes. */
  readonly publicKey: Uint8Array
  readonly sign: (bytes: Uint8Array) => Uint8Array
  readonly hash: Hash
  readonly random: (bytes: number) => Uint8Array
}

/** What a session is made with. */
export interface CoreOptions {
  /** Under which the relay is pinned: the endpoint's host, the same for both ways. */
  readonly endpoint: string
  /** The relay that was found there before. */
  readonly pinned: Uint8Array | undefined
  /** The way of the endpoint. */
  readonly way: Way
  /** Whether an agent that cannot get through by QUIC takes gRPC. */
  readonly fallback: boolean
  /** Whether there is a token source; without one the agent is a guest. */
  readonly tokens: boolean
  readonly signer: Signer
  readonly traffic: TrafficProfileName
  /** Of the strict profile, when it is not the default; otherwise 0. */
  readonly cellsPerSecond: number
}
