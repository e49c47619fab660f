/** JSON documents on a local socket, each after its length: four bytes, the highest first. */
import { StaticError } from '@static/protocol'

const HEAD_BYTES = 4
/** Room for a message of the greatest size in base64, or for the members of a full channel. */
export const MAX_FRAME_BYTES: number = 1024 * 1024

/** A document as bytes. */
export function encodeFrame(value: unknown): Buffer {
  const body = Buffer.from(JSON.stringify(value))
  if (body.length > MAX_FRAME_BYTES) throw StaticError.of('too_large', 'That is too much for one answer.')
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32BE(body.length)
  return Buffer.concat([head, body])
}

/** Puts documents together from the pieces in which they come. */
export class FrameReader {
  #chunks: Buffer[] = []
  #length = 0

  /**
   * The documents that are complete now.
   *
   * @throws {StaticError} `invalid_request` for what is no such document, or a greater one than any
   */
  push(chunk: Buffer): unknown[] {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    const found: unknown[] = []
    while (this.#length >= HEAD_BYTES) {
      const size = this.#peekSize()
      if (size > MAX_FRAME_BYTES) throw StaticError.of('invalid_request', 'That is too much for one request.')
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
    throw StaticError.of('invalid_request', 'That is not JSON.')
  }
}
