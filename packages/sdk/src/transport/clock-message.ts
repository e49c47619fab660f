/** Messages between the agent's thread and the thread of a clocked stream. */
import type { ConnectionFailure } from '@static/node/connection-error'
import type { ErrorCode, Pace } from '@static/protocol'
import type { Target } from '../ports/index.ts'

/** The settings that the thread starts with. */
export interface ClockSettings {
  readonly way: 'quic' | 'grpc'
  readonly target: Target
  readonly connectTimeoutMs: number | undefined
  /** One Int32: bytes that the agent has consumed, modulo 2³². Shared, so that counting needs no messages. */
  readonly consumed: SharedArrayBuffer
}

/** An error passed between threads, which cannot pass class instances. */
export interface SentError {
  readonly code: ErrorCode
  /** The reason of a `ConnectionError`. */
  readonly reason: ConnectionFailure | undefined
  readonly message: string
}

/** Messages to the thread. */
export type ToClock =
  | { readonly type: 'write'; readonly cells: Uint8Array; readonly urgent: boolean }
  | { readonly type: 'pace'; readonly pace: Pace }
  | { readonly type: 'end' }
  /** The temporary directory is set. */
  | { readonly type: 'shielded' }

/** Messages from the thread. */
export type FromClock =
  | { readonly type: 'dialled'; readonly address: string | undefined }
  | { readonly type: 'failed'; readonly error: SentError }
  /** Sent before and after the library reads certificates. */
  | { readonly type: 'shield' | 'unshield' }
  | { readonly type: 'data'; readonly chunk: Uint8Array }
  | { readonly type: 'closed'; readonly error: SentError | undefined }
