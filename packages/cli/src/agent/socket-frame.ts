/** Length-prefixed JSON on a local socket: a 4-byte big-endian length, then the document. */
import { StaticError } from '@static/protocol'

const HEAD_BYTES = 4
/** Enough for a message of the maximum size in base64, or for the members of a full channel. */
export const MAX_FRAME_BYTES: number = 1024 * 1024

/** Encodes a document. */
export function encodeFrame(value: unknown): Buffer {
  const body = Buffer.from(JSON.stringify(value))
  if (body.length > MAX_FRAME_BYTES)
    throw StaticError.of(
      'too_large',
      `The frame has ${body.length} bytes, too many for one request or answer (limit: ${MAX_FRAME_BYTES}).`,
    )
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32BE(body.length)
  return Buffer.concat([head, body])
}

/** Reassembles documents from the chunks of a stream. */
export class FrameReader {
  #chunks: Buffer[] = []
  #length = 0
  /** The number of bytes in the next document, as far as known. */
  #needed = HEAD_BYTES

  /**
   * Adds a chunk and returns the documents that it completes.
   *
   * @throws {StaticError} `invalid_request` for a document that is not JSON or exceeds the limit
   */
  push(chunk: Buffer): unknown[] {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    const found: unknown[] = []
    if (this.#length < this.#needed) return found
    // Once per call, so that bytes are copied once, however many documents they contain.
    const bytes = Buffer.concat(this.#chunks)
    let at = 0
    for (;;) {
      const size = bytes.length - at < HEAD_BYTES ? 0 : bytes.readUInt32BE(at)
      if (size > MAX_FRAME_BYTES)
        throw StaticError.of(
          'invalid_request',
          `The frame has ${size} bytes, too many for one request or answer (limit: ${MAX_FRAME_BYTES}).`,
        )
      this.#needed = HEAD_BYTES + size
      if (bytes.length - at < this.#needed) break
      found.push(parsed(bytes.subarray(at + HEAD_BYTES, at + this.#needed)))
      at += this.#needed
    }
    this.#chunks = [bytes.subarray(at)]
    this.#length = bytes.length - at
    return found
  }
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    throw StaticError.of('invalid_request', 'The frame is not JSON.')
  }
}
