/** What an agent's thread and the thread of a stream with a clock tell each other. */
import type { ConnectionFailure } from '@static/node/connection-error'
import type { ErrorCode, Pace } from '@static/protocol'
import type { Target } from '../ports.ts'

/** What the thread is started with. */
export interface ClockSettings {
  readonly way: 'quic' | 'grpc'
  readonly target: Target
  readonly connectTimeoutMs: number | undefined
  /** One Int32: how many bytes the agent has taken, modulo 2³². Shared, so that counting costs no messages. */
  readonly taken: SharedArrayBuffer
}

/** An error on its way between threads: classes do not travel. */
export interface SentError {
  readonly code: ErrorCode
  /** Of a `ConnectionError`. */
  readonly reason: ConnectionFailure | undefined
  readonly message: string
}

/** What the thread is told. */
export type ToClock =
  | { readonly type: 'write'; readonly cells: Uint8Array; readonly urgent: boolean }
  | { readonly type: 'pace'; readonly pace: Pace }
  | { readonly type: 'end' }
  /** The temporary directory is set. */
  | { readonly type: 'shielded' }

/** What the thread says. */
export type FromClock =
  | { readonly type: 'dialled' }
  | { readonly type: 'failed'; readonly error: SentError }
  /** The library is about to read certificates; and it has. */
  | { readonly type: 'shield' | 'unshield' }
  | { readonly type: 'data'; readonly chunk: Uint8Array }
  | { readonly type: 'closed'; readonly error: SentError | undefined }
