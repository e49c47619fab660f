/**
 * gRPC's framing, without I/O: a compressed flag (1 byte), the length of the message (4 bytes), the message
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). Every message of a session is a protobuf `Cell` of
 * 1,024 bytes, so the first 8 bytes are always the same and nothing needs to be decoded.
 */
import { CELL_BYTES } from '../traffic/cell.ts'

/** The first bytes of every message. */
export const GRPC_PREFIX_BYTES = 5
/** Not compressed, 1,027 bytes; then field 1 of type bytes, 1,024 bytes long. */
const CELL_HEAD: Uint8Array = Uint8Array.of(0, 0, 0, 0x04, 0x03, 0x0a, 0x80, 0x08)
const HEAD_BYTES = 8
/** A cell on the wire. */
const FRAMED_CELL_BYTES: number = HEAD_BYTES + CELL_BYTES

/** Why a session's bytes are refused. */
export type FrameFault = 'compressed' | 'not-a-cell'

export function frameMessage(message: Uint8Array): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(GRPC_PREFIX_BYTES + message.length)
  new DataView(frame.buffer).setUint32(1, message.length)
  frame.set(message, GRPC_PREFIX_BYTES)
  return frame
}

/**
 * Frames cells, each as a separate message. A caller can pass memory that is faster to obtain than a new array; it need
 * not be zeroed.
 *
 * @throws {RangeError} if the bytes are not whole cells
 */
export function frameCells(
  cells: Uint8Array,
  allocate: (size: number) => Uint8Array = (size) => new Uint8Array(size),
): Uint8Array {
  if (cells.length % CELL_BYTES !== 0) throw new RangeError(`${cells.length} bytes are not whole cells.`)
  const count = cells.length / CELL_BYTES
  const frames = allocate(count * FRAMED_CELL_BYTES)
  for (let at = 0; at < count; at++) {
    frames.set(CELL_HEAD, at * FRAMED_CELL_BYTES)
    frames.set(cells.subarray(at * CELL_BYTES, (at + 1) * CELL_BYTES), at * FRAMED_CELL_BYTES + HEAD_BYTES)
  }
  return frames
}

/** Removes the framing from the cells of one direction of a session, in whatever chunks they arrive. */
export class CellUnframer {
  /** Set once a message is not a cell; nothing is accepted after that. */
  fault: FrameFault | undefined
  /** How many bytes of the current message have arrived. */
  #place = 0

  /** Whether the bytes so far are whole messages. */
  get isWhole(): boolean {
    return this.#place === 0
  }

  /** The cell bytes in a chunk: a copy, because the chunk is a view of the connection's buffer. */
  push(chunk: Uint8Array): Uint8Array {
    let place = this.#place
    let filled = 0
    const length = this.fault === undefined ? cellBytes(place + chunk.length) - cellBytes(place) : 0
    const cells = new Uint8Array(length)
    for (let at = 0; at < chunk.length && this.fault === undefined;) {
      if (place < HEAD_BYTES) {
        if (chunk[at] !== CELL_HEAD[place]) {
          this.fault = place === 0 ? 'compressed' : 'not-a-cell'
          break
        }
        at++
        place++
        continue
      }
      const taken = Math.min(FRAMED_CELL_BYTES - place, chunk.length - at)
      cells.set(chunk.subarray(at, at + taken), filled)
      at += taken
      filled += taken
      place = (place + taken) % FRAMED_CELL_BYTES
    }
    this.#place = place
    return filled === length ? cells : cells.subarray(0, filled)
  }
}

/** How many cell bytes the given number of message bytes contains. */
function cellBytes(framed: number): number {
  const whole = Math.floor(framed / FRAMED_CELL_BYTES)
  return whole * CELL_BYTES + Math.max(0, (framed % FRAMED_CELL_BYTES) - HEAD_BYTES)
}
