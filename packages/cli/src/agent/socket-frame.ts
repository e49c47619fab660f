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

  /**
   * Adds a chunk and returns the documents that it completes.
   *
   * @throws {StaticError} `invalid_request` for a document that is not JSON or exceeds the limit
   */
  push(chunk: Buffer): unknown[] {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    const found: unknown[] = []
    while (this.#length >= HEAD_BYTES) {
      const size = this.#peekSize()
      if (size > MAX_FRAME_BYTES)
        throw StaticError.of(
          'invalid_request',
          `The frame has ${size} bytes, too many for one request or answer (limit: ${MAX_FRAME_BYTES}).`,
        )
      if (this.#length < HEAD_BYTES + size) break
      found.push(parsed(this.#take(HEAD_BYTES + size).subarray(HEAD_BYTES)))
    }
    return found
  }

  #peekSize(): number {
    if ((this.#chunks[0]?.length ?? 0) < HEAD_BYTES) this.#chunks = [Buffer.concat(this.#chunks)]
    return this.#chunks[0]?.readUInt32BE(0) ?? 0
  }

  #take(bytes: number): Buffer {
    const all = Buffer.concat(this.#chunks)
    this.#chunks = all.length > bytes ? [all.subarray(bytes)] : []
    this.#length -= bytes
    return all.subarray(0, bytes)
  }
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    throw StaticError.of('invalid_request', 'The frame is not JSON.')
  }
}
