/** Passes data arriving at a QUIC endpoint to the relay's thread in batches, and tracks how far the relay is behind. */
import type { MessagePort } from 'node:worker_threads'
import { type Arrivals, ChunkPacker, type StreamNumber } from './worker-messages.ts'

/** How many bytes of one stream the relay may be behind. */
const MAX_STREAM_BYTES = 8 * 1024 * 1024
/** How many bytes of all streams, including closed ones, the relay may be behind. */
const MAX_BYTES = 128 * 1024 * 1024
/** How many bytes each stream may be behind even if that is used up. */
const LEAST_STREAM_BYTES = 16 * 1024

/** Collects what happens in one turn of the event loop and posts it at the end of the turn. */
export class ArrivalBatch {
  readonly #port: MessagePort
  readonly #taken: Int32Array
  readonly #overflow: (stream: StreamNumber) => void
  readonly #packer = new ChunkPacker()
  #opened: Arrivals['opened'][number][] = []
  #chunks: number[] = []
  #closed: StreamNumber[] = []
  #scheduled = false
  /** The `chunks` of posted batches that the relay has not taken yet. */
  readonly #posted: (readonly number[])[] = []
  #dropped = 0
  /** Bytes not taken yet, of each stream and in total. */
  readonly #behind = new Map<StreamNumber, number>()
  #allBehind = 0
  /** Number of streams with data not taken yet. */
  #active = 0
  /** Streams that got too far behind in this turn: their further data is dropped. */
  readonly #spilled = new Set<StreamNumber>()

  /** `overflow` is called for a stream that is too far behind and must be closed. */
  constructor(port: MessagePort, taken: SharedArrayBuffer, overflow: (stream: StreamNumber) => void) {
    this.#port = port
    this.#taken = new Int32Array(taken)
    this.#overflow = overflow
  }

  opened(stream: StreamNumber, address: string, proxy: boolean): void {
    this.#opened.push({ stream, address, proxy })
    this.#behind.set(stream, 0)
    this.#schedule()
  }

  received(stream: StreamNumber, chunk: Uint8Array): void {
    if (this.#spilled.has(stream)) return
    this.#packer.add(chunk)
    const last = this.#chunks.length - 2
    // Consecutive data of one stream becomes one chunk.
    if (this.#chunks[last] === stream) this.#chunks[last + 1] = (this.#chunks[last + 1] ?? 0) + chunk.length
    else this.#chunks.push(stream, chunk.length)
    this.#count(stream, chunk.length)
    // The library may pass on tens of megabytes in one turn.
    if (this.#isTooFarBehind(stream)) {
      this.#settle()
      if (this.#isTooFarBehind(stream)) this.#spilled.add(stream)
    }
    this.#schedule()
  }

  closed(stream: StreamNumber): void {
    this.#closed.push(stream)
    this.#schedule()
  }

  /** Called when a stream is gone. Its data still counts towards the total. */
  forget(stream: StreamNumber): void {
    if ((this.#behind.get(stream) ?? 0) > 0) this.#active--
    this.#behind.delete(stream)
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#post())
  }

  #post(): void {
    this.#scheduled = false
    const bytes = this.#packer.pack()
    const message: Arrivals = {
      type: 'arrivals',
      opened: this.#opened,
      chunks: this.#chunks,
      bytes,
      closed: this.#closed,
    }
    this.#port.postMessage(message, [bytes])
    this.#posted.push(this.#chunks)
    this.#opened = []
    this.#chunks = []
    this.#closed = []
    this.#settle()
    this.#bound()
  }

  /** Subtracts what the relay has taken since. */
  #settle(): void {
    const taken = Atomics.load(this.#taken, 0) | 0
    while (this.#dropped !== taken) {
      const chunks = this.#posted.shift() ?? []
      for (let at = 0; at < chunks.length; at += 2) this.#count(chunks[at] ?? 0, -(chunks[at + 1] ?? 0))
      // Wraps around, like the shared counter.
      this.#dropped = (this.#dropped + 1) | 0
    }
  }

  #count(stream: StreamNumber, bytes: number): void {
    this.#allBehind += bytes
    const behind = this.#behind.get(stream)
    if (behind === undefined) return
    this.#behind.set(stream, behind + bytes)
    this.#active += Number(behind + bytes > 0) - Number(behind > 0)
  }

  /**
   * How far a stream may be behind. Once half of the room is used up, each stream gets a share of the rest, so that
   * neither heavy senders nor the data of closed streams cost others their streams. Closed streams alone can use up all
   * of it.
   */
  get #limit(): number {
    const room = MAX_BYTES - this.#allBehind
    if (room >= MAX_BYTES / 2) return MAX_STREAM_BYTES
    const share = Math.max(0, room) / Math.max(1, this.#active)
    return Math.min(MAX_STREAM_BYTES, Math.max(LEAST_STREAM_BYTES, share))
  }

  #isTooFarBehind(stream: StreamNumber): boolean {
    return (this.#behind.get(stream) ?? 0) > this.#limit
  }

  #bound(): void {
    for (const stream of this.#spilled) this.#giveUp(stream)
    this.#spilled.clear()
    if (this.#limit === MAX_STREAM_BYTES) return
    for (const [stream, bytes] of [...this.#behind].sort(([, one], [, other]) => other - one)) {
      if (bytes <= this.#limit) return
      this.#giveUp(stream)
    }
  }

  #giveUp(stream: StreamNumber): void {
    this.forget(stream)
    this.#overflow(stream)
  }
}
