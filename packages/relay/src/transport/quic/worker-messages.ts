/**
 * What the relay's thread and the thread of a QUIC endpoint tell each other. Everything that happened in one turn of an
 * event loop travels in one message, and all its bytes in one buffer that changes hands without being copied.
 */
import type { Pace } from '@static/protocol'
import type { PacingCounts } from '../../session/pacing.ts'

/** What an endpoint's thread is started with. */
export interface EndpointSettings {
  /** IP addresses; one socket for each, all with the same port. */
  readonly addresses: readonly string[]
  readonly port: number
  readonly cert: string
  readonly key: string
  readonly proxyCa: string | undefined
  readonly maxConnections: number
  readonly idleTimeoutMs: number
  /** One Int32: how many batches the relay has taken. Shared, so that counting costs no messages. */
  readonly taken: SharedArrayBuffer
}

/** A stream's number within the life of an endpoint's thread; never used twice. */
export type StreamNumber = number

/** What peers did: first the streams that opened, then what arrived, then the streams that are over. */
export interface Arrivals {
  readonly type: 'arrivals'
  readonly opened: readonly { readonly stream: StreamNumber; readonly address: string; readonly proxy: boolean }[]
  /** Stream and length of each chunk in turn; the chunks lie one after the other in `bytes`. */
  readonly chunks: readonly number[]
  readonly bytes: ArrayBuffer
  readonly closed: readonly StreamNumber[]
}

/** What an endpoint's thread says. */
export type FromEndpoint =
  | { readonly type: 'listening' }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'warning'; readonly message: string; readonly detail: string }
  | { readonly type: 'stopped' }
  /** What the clocks have done since the thread began. */
  | { readonly type: 'pacing'; readonly counts: PacingCounts }
  | Arrivals

/** What the relay wants to be sent: first the writes, then the streams to end. */
export interface Departures {
  readonly type: 'departures'
  /** For each write: its length, whether it is urgent (1 or 0), how many streams get it, and those streams. */
  readonly writes: readonly number[]
  readonly bytes: ArrayBuffer
  /** Streams that leave on a clock from now on, these writes included. */
  readonly paced: readonly { readonly stream: StreamNumber; readonly pace: Pace }[]
  readonly ended: readonly StreamNumber[]
}

/** What an endpoint's thread is told. */
export type ToEndpoint = Departures | { readonly type: 'stop' }

/** Chunks on their way into one buffer. */
export class ChunkPacker {
  #parts: Uint8Array[] = []
  #length = 0

  add(part: Uint8Array): void {
    this.#parts.push(part)
    this.#length += part.length
  }

  /** All parts in one buffer, to be transferred; the packer is empty again. */
  pack(): ArrayBuffer {
    const bytes = new Uint8Array(this.#length)
    let at = 0
    for (const part of this.#parts) {
      bytes.set(part, at)
      at += part.length
    }
    this.#parts = []
    this.#length = 0
    return bytes.buffer
  }
}
