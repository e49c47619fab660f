/** Session streams over native gRPC. Framed here instead of by the library, because this is the hot path. */
import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { Code, ConnectError } from '@connectrpc/connect'
import { CellUnframer, frameCells, type Pace } from '@static/protocol'
import { Pacing, type PacingCounts } from '../../session/pacing.ts'
import type { Peer, StreamHandler, StreamId } from '../../ports.ts'
import { GrpcStream, objection, type StreamLimits } from './stream.ts'

/** All session streams of a port. */
export class SessionStreams {
  readonly #handler: StreamHandler
  readonly #limits: StreamLimits
  readonly #open = new Map<StreamId, GrpcStream>()
  readonly #pacing = new Pacing()

  constructor(handler: StreamHandler, limits: StreamLimits) {
    this.#handler = handler
    this.#limits = limits
  }

  /** Accepts a new stream. */
  accept(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, peer: Peer): void {
    const reply = new GrpcStream(stream, this.#limits)
    const refusal = objection(headers)
    if (refusal !== undefined) {
      reply.end(refusal)
      return
    }
    const id = this.#handler.opened(peer)
    if (id === undefined) {
      reply.end(new ConnectError('The relay accepts no more sessions now. Retry later.', Code.Unavailable))
      return
    }
    this.#open.set(id, reply)
    const unframer = new CellUnframer()
    stream.on('data', (chunk: Buffer) => {
      // Already ended by either side: ignore late data.
      if (!this.#open.has(id)) return
      const cells = unframer.push(chunk)
      if (cells.length > 0) this.#handler.received(id, cells)
      if (unframer.fault !== undefined) this.#finish(id, faultError(unframer.fault))
    })
    stream.on('end', () => this.#finish(id, unframer.isWhole ? undefined : faultError('not-a-cell')))
    stream.on('close', () => {
      this.#pacing.drop(id)
      this.#finish(id)
    })
    reply.open()
  }

  /** As in `Transport`. The cells are framed once; all receivers' connections get the same buffer. */
  write(ids: readonly StreamId[], cells: Uint8Array, urgent: boolean): void {
    let frames: Uint8Array | undefined
    for (const id of ids) {
      if (!this.#pacing.push(id, cells, urgent)) this.#open.get(id)?.write((frames ??= framed(cells)))
    }
  }

  /** As in `Transport`. */
  pace(id: StreamId, pace: Pace): void {
    const reply = this.#open.get(id)
    if (reply) this.#pacing.start(id, pace, (cell) => reply.write(framed(cell)))
  }

  /** Counts of the clocks. */
  get pacing(): PacingCounts {
    return this.#pacing.counts
  }

  /** As in `Transport`. */
  end(id: StreamId): void {
    const reply = this.#open.get(id)
    this.#open.delete(id)
    this.#pacing.end(id, () => reply?.end())
  }

  /** Ends every stream. */
  endAll(): void {
    for (const id of this.#open.keys()) this.#finish(id)
  }

  /** Reports a stream that was not ended by the handler. */
  #finish(id: StreamId, error?: ConnectError): void {
    const reply = this.#open.get(id)
    if (reply === undefined) return
    this.#open.delete(id)
    this.#pacing.drop(id)
    reply.end(error)
    this.#handler.closed(id)
  }
}

function faultError(fault: NonNullable<CellUnframer['fault']>): ConnectError {
  return fault === 'compressed'
    ? new ConnectError('Compressed messages are not supported.', Code.Unimplemented)
    : new ConnectError('Every message of a session must be one cell of 1,024 bytes.', Code.InvalidArgument)
}

/** Frames cells in pooled memory, which is faster than new arrays. */
function framed(cells: Uint8Array): Uint8Array {
  return frameCells(cells, (size) => Buffer.allocUnsafe(size))
}
