/**
 * What goes through the pipe between a program in another language and the driver: the length of the rest (4 bytes, big
 * endian), the length of the header (4 bytes), the header as JSON, and bytes as they are.
 */

/** One frame. */
export interface Frame {
  readonly header: unknown
  readonly bytes: Uint8Array
}

/** More than any call needs; a longer one means that the two sides no longer understand each other. */
const MAX_FRAME_BYTES = 1024 * 1024
const LENGTH_BYTES = 4

/** A frame in the pieces that are to be written. */
export function encodeFrame(header: unknown, bytes: Uint8Array = new Uint8Array()): readonly Uint8Array[] {
  const json = JSON.stringify(header)
  const headerBytes = Buffer.byteLength(json)
  const head = Buffer.allocUnsafe(2 * LENGTH_BYTES + headerBytes)
  head.writeUInt32BE(LENGTH_BYTES + headerBytes + bytes.length, 0)
  head.writeUInt32BE(headerBytes, LENGTH_BYTES)
  head.write(json, 2 * LENGTH_BYTES)
  return bytes.length === 0 ? [head] : [head, bytes]
}

/** Cuts what comes through the pipe into frames. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0)

  /** The frames that a chunk completes. Throws a RangeError when it cannot be one. */
  push(chunk: Buffer): readonly Frame[] {
    const frames: Frame[] = []
    let rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    while (rest.length >= LENGTH_BYTES) {
      const length = rest.readUInt32BE(0)
      if (length < LENGTH_BYTES || length > MAX_FRAME_BYTES) throw new RangeError(`A frame of ${length} bytes.`)
      const end = LENGTH_BYTES + length
      if (rest.length < end) break
      const start = 2 * LENGTH_BYTES + rest.readUInt32BE(LENGTH_BYTES)
      if (start > end) throw new RangeError('A header that is longer than its frame.')
      const header: unknown = JSON.parse(rest.toString('utf8', 2 * LENGTH_BYTES, start))
      frames.push({ header, bytes: rest.subarray(start, end) })
      rest = rest.subarray(end)
    }
    this.#rest = rest
    return frames
  }
}
