/**
 * The inputs and effects of a session's core: the agent's side of the protocol without sockets, clock or randomness.
 */
import type { Hash, Pace, StaticError, TrafficProfileName } from '@static/protocol'
import type { WireForm } from '@static/protocol/envelope'
import type { KnownRelay, Outcome, RelaySession, RequestBody, ServerBody, SessionInfo, Time } from '../ports/index.ts'

/** A transport. */
export type Way = SessionInfo['way']
/** Number of a dialed stream, counted from 1. */
export type StreamNumber = number
/** How far a channel has been read, and the receipt for it if there is one. */
export type Position = Parameters<RelaySession['ack']>[0][number]

/** The wire form of each transport. */
export const FORMS: Readonly<Record<Way, WireForm>> = { quic: 'cbor', grpc: 'protobuf' }

/** Inputs from outside. `Key` identifies a request to the caller. */
export type Input<Key> =
  | { readonly type: 'start' }
  /** The stream is connected, to a relay whose certificate has this name. */
  | { readonly type: 'dialled'; readonly stream: StreamNumber; readonly serverName: string }
  | {
      readonly type: 'dialFailed'
      readonly stream: StreamNumber
      readonly error: StaticError
      /**
       * `certificate`: the peer's is not trusted, and another transport would not help. `unusable`: this process cannot
       * use the transport at all.
       */
      readonly kind: 'certificate' | 'unreachable' | 'unusable'
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

/** Where a relay says that the parts of files are. */
export interface AnnouncedFiles {
  /** At the host of the session; 0 for none. */
  readonly port: number
  /** Used in place of host and port; empty for none. */
  readonly url: string
}

/** What the core knows of a session that has opened. */
export interface OpenedInfo extends Omit<SessionInfo, 'files'> {
  /** The address of the endpoint that the session leads to. */
  readonly node: number
  readonly announced: AnnouncedFiles
}

/** Effects to carry out, in order. */
export type Effect<Key> =
  /** Dials an address of the endpoint, at another port of the same host if one is given. */
  | {
      readonly type: 'dial'
      readonly stream: StreamNumber
      readonly way: Way
      readonly node: number
      readonly port: number | undefined
      /** Whether to try the last stream's node only after the other nodes of the same name. */
      readonly avoidsLast: boolean
    }
  /** Writes cells. Urgent cells are self-contained: on a clocked stream they are sent before the others. */
  | { readonly type: 'write'; readonly stream: StreamNumber; readonly cells: Uint8Array; readonly urgent: boolean }
  /** From now on, the stream sends on a clock. */
  | { readonly type: 'pace'; readonly stream: StreamNumber; readonly pace: Pace }
  /** Ends a stream after what was written and ignores everything that still arrives on it. */
  | { readonly type: 'end'; readonly stream: StreamNumber }
  /** Fetches a token. Only one request is pending at a time. */
  | { readonly type: 'askToken' }
  | { readonly type: 'outcome'; readonly key: Key; readonly outcome: Outcome }
  | { readonly type: 'opened'; readonly info: OpenedInfo }
  | { readonly type: 'push'; readonly body: ServerBody }
  | { readonly type: 'lost'; readonly reason: StaticError }
  | { readonly type: 'pin'; readonly relayName: string; readonly relay: KnownRelay }
  /** Requests a `tick` at this time, which is earlier than any pending one. */
  | { readonly type: 'wakeAt'; readonly at: Time }
  /** The first session could not be opened. The core is closed. */
  | { readonly type: 'firstFailed'; readonly error: StaticError }

/** The agent's public key, and the cryptography that the core does not do itself. */
export interface SessionSigner {
  /** Ed25519, 32 bytes. */
  readonly publicKey: Uint8Array
  readonly sign: (bytes: Uint8Array) => Uint8Array
  readonly hash: Hash
  readonly random: (bytes: number) => Uint8Array
}

/** The relay that must answer. */
export interface ExpectedRelay {
  /** The name that TLS verified. */
  readonly serverName: string
  /** Id of the relay that the agent knows. */
  readonly known: Uint8Array | undefined
  /** Id of the relay that the application accepts in its place. */
  readonly accepted: Uint8Array | undefined
}

export interface CoreOptions {
  /** The key under which the relay is pinned: the name in its certificate, the same for all its addresses. */
  readonly relayName: string
  /** Number of addresses of the endpoint. */
  readonly addresses: number
  /** The relay seen under that name before. */
  readonly known: KnownRelay | undefined
  /** Id of the relay to accept in place of the known one, or as the only one if none is known. */
  readonly accepted: Uint8Array | undefined
  /** The transport of the endpoint. */
  readonly way: Way
  /** Whether to use gRPC if QUIC cannot connect. */
  readonly fallback: boolean
  /** The port of gRPC, regardless of the relay's announcement. Undefined: as the relay announces. */
  readonly grpcPort: number | undefined
  /** Whether there is a token source. Without one the agent is a guest. */
  readonly tokens: boolean
  /** Whether to keep dialing if the relay or the API cannot be reached at first. */
  readonly wait: boolean
  readonly signer: SessionSigner
  readonly traffic: TrafficProfileName
  /** Rate of the strict profile if it is not the default, otherwise 0. */
  readonly cellsPerSecond: number
}

/** Collects the effects of one input, for all parts of the core. */
export class Effects<Key> {
  /** The time of the input. */
  now: Time = 0
  /** Whether pongs are withheld. */
  held = false
  #list: Effect<Key>[] = []

  emit(effect: Effect<Key>): void {
    this.#list.push(effect)
  }

  /** Returns the collected effects, in order, and clears them. */
  drain(): readonly Effect<Key>[] {
    const list = this.#list
    if (list.length > 0) this.#list = []
    return list
  }
}
