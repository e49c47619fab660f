/**
 * Messages between the relay's thread and the thread of a QUIC endpoint. Everything from one turn of an event loop goes
 * into one message, with all its bytes in one buffer that is transferred, not copied.
 */
import type { Pace } from '@static/protocol'
import type { PacingCounts } from '../../session/pacing.ts'

/** Options for starting an endpoint's thread. */
export interface EndpointSettings {
  /** IP addresses; one socket for each, all with the same port. */
  readonly addresses: readonly string[]
  readonly port: number
  readonly cert: string
  readonly key: string
  readonly proxyCa: string | undefined
  /** Maximum number of connections, of agents and proxies. More are closed as soon as they are established. */
  readonly maxConnections: number
  readonly idleTimeoutMs: number
  /** One Int32: the number of batches that the relay has taken. Shared, so that counting needs no messages. */
  readonly taken: SharedArrayBuffer
}

/** A stream's number within the life of an endpoint's thread; never reused. */
export type StreamNumber = number

/** Events from peers: first new streams, then data, then closed streams. */
export interface Arrivals {
  readonly type: 'arrivals'
  readonly opened: readonly { readonly stream: StreamNumber; readonly address: string; readonly proxy: boolean }[]
  /** Alternating stream and length of each chunk. The chunks follow each other in `bytes`. */
  readonly chunks: readonly number[]
  readonly bytes: ArrayBuffer
  readonly closed: readonly StreamNumber[]
}

/** Messages from an endpoint's thread. */
export type FromEndpoint =
  | { readonly type: 'listening' }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'warning'; readonly message: string; readonly detail: string }
  /** A connection was closed because there are too many. */
  | { readonly type: 'full'; readonly address: string }
  | { readonly type: 'stopped' }
  /** Counts of the clocks since the thread started. */
  | { readonly type: 'pacing'; readonly counts: PacingCounts }
  | Arrivals

/** What to send: first the writes, then the streams to end. */
export interface Departures {
  readonly type: 'departures'
  /**
   * For each write: its length, whether it is urgent (1 or 0), the number of streams that get it, and those streams.
   */
  readonly writes: readonly number[]
  readonly bytes: ArrayBuffer
  /** Streams that are on a clock from now on, including for these writes. */
  readonly paced: readonly { readonly stream: StreamNumber; readonly pace: Pace }[]
  /** Streams whose peers are authenticated. */
  readonly known: readonly StreamNumber[]
  readonly ended: readonly StreamNumber[]
}

/** Messages to an endpoint's thread. */
export type ToEndpoint = Departures | { readonly type: 'stop' }

/** Collects chunks for one buffer. */
export class ChunkPacker {
  #parts: Uint8Array[] = []
  #length = 0

  add(part: Uint8Array): void {
    this.#parts.push(part)
    this.#length += part.length
  }

  /** All chunks in one buffer for transfer. Empties the packer. */
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
