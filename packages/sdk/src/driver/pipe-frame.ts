/**
 * Frames on the pipe between a program in another language and the driver: the length of the rest (4 bytes,
 * big-endian), the length of the header (4 bytes, big-endian), the header as JSON, and raw bytes.
 */

/** A call or an answer of the driver, not yet checked. */
export interface PipeFrame {
  readonly header: unknown
  readonly bytes: Uint8Array
}

/** More than any call needs. A longer frame means that the two sides are out of sync. */
const MAX_FRAME_BYTES = 1024 * 1024
const LENGTH_BYTES = 4

/** Encodes a frame as chunks to write. */
export function encodePipeFrame(header: unknown, bytes: Uint8Array = new Uint8Array()): readonly Uint8Array[] {
  const json = JSON.stringify(header)
  const headerBytes = Buffer.byteLength(json)
  const head = Buffer.allocUnsafe(2 * LENGTH_BYTES + headerBytes)
  head.writeUInt32BE(LENGTH_BYTES + headerBytes + bytes.length, 0)
  head.writeUInt32BE(headerBytes, LENGTH_BYTES)
  head.write(json, 2 * LENGTH_BYTES)
  return bytes.length === 0 ? [head] : [head, bytes]
}

/** Splits the bytes from the pipe into frames. */
export class PipeFrameReader {
  #rest: Buffer = Buffer.alloc(0)

  /** Returns the frames that a chunk completes. Throws a RangeError for an invalid frame. */
  push(chunk: Buffer): readonly PipeFrame[] {
    const frames: PipeFrame[] = []
    let rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    while (rest.length >= LENGTH_BYTES) {
      const length = rest.readUInt32BE(0)
      if (length < LENGTH_BYTES || length > MAX_FRAME_BYTES)
        throw new RangeError(`Invalid frame length: ${length} bytes.`)
      const end = LENGTH_BYTES + length
      if (rest.length < end) break
      const start = 2 * LENGTH_BYTES + rest.readUInt32BE(LENGTH_BYTES)
      if (start > end) throw new RangeError('The frame header is longer than its frame.')
      frames.push({ header: parseHeader(rest.subarray(2 * LENGTH_BYTES, start)), bytes: rest.subarray(start, end) })
      rest = rest.subarray(end)
    }
    this.#rest = rest
    return frames
  }
}

function parseHeader(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    // The engine's message quotes the header, which may contain a secret.
    throw new RangeError('The frame header is not JSON.')
  }
}
