/**
 * The unencrypted framing of an MLS PrivateMessage (RFC 9420, sections 2.1.2, 6 and 6.3): lengths of one, two or four
 * bytes, and the offsets of the parts of a message. Nothing here is verified.
 */
import { viewOf } from '../platform/bytes.ts'

/** The size in bytes of the encoding of a length. */
export function lengthBytes(length: number): 1 | 2 | 4 {
  return length < 0x40 ? 1 : length < 0x4000 ? 2 : 4
}

/** Writes a length and returns the offset after it. */
export function writeLength(bytes: Uint8Array, at: number, length: number): number {
  if (length < 0x40) {
    bytes[at] = length
    return at + 1
  }
  if (length < 0x4000) {
    bytes[at] = 0x40 | (length >>> 8)
    bytes[at + 1] = length
    return at + 2
  }
  bytes[at] = 0x80 | (length >>> 24)
  bytes[at + 1] = length >>> 16
  bytes[at + 2] = length >>> 8
  bytes[at + 3] = length
  return at + 4
}

/** The start and end of a length-prefixed byte string, without the prefix. */
export interface Span {
  readonly start: number
  readonly end: number
}

/** Reads a length prefix; undefined if it is not in its shortest form or points past the end. */
export function readSpan(bytes: Uint8Array, at: number): Span | undefined {
  const first = bytes[at]
  if (first === undefined) return undefined
  const size = first < 0x40 ? 1 : first < 0x80 ? 2 : first < 0xc0 ? 4 : undefined
  if (size === undefined || at + size > bytes.length) return undefined
  let length = first & 0x3f
  for (let next = 1; next < size; next++) length = length * 0x100 + (bytes[at + next] ?? 0)
  const start = at + size
  if (lengthBytes(length) !== size || start + length > bytes.length) return undefined
  return { start, end: start + length }
}

/** MLSMessage: version mls10, wire format mls_private_message. */
export const PRIVATE_MESSAGE: Uint8Array = new Uint8Array([0, 1, 0, 2])

/** The content types of a PrivateMessage. */
export const CONTENT_TYPES = { application: 1, proposal: 2, commit: 3 } as const

/** The parts of a PrivateMessage, as views into it. */
export interface PrivateMessageParts {
  readonly groupId: Uint8Array
  readonly epoch: bigint
  readonly contentType: number
  readonly authenticatedData: Uint8Array
  /** The additional data of the content's AEAD: everything from the group id to the authenticated data. */
  readonly contentData: Uint8Array
  readonly senderData: Uint8Array
  readonly ciphertext: Uint8Array
}

/** Splits an MLSMessage into its parts; undefined if it is not a PrivateMessage. */
export function parsePrivateMessage(bytes: Uint8Array): PrivateMessageParts | undefined {
  if (PRIVATE_MESSAGE.some((byte, at) => bytes[at] !== byte)) return undefined
  const groupId = readSpan(bytes, PRIVATE_MESSAGE.length)
  if (groupId === undefined || groupId.end + 9 > bytes.length) return undefined
  const epoch = viewOf(bytes).getBigUint64(groupId.end)
  const data = readSpan(bytes, groupId.end + 9)
  const senderData = data && readSpan(bytes, data.end)
  const ciphertext = senderData && readSpan(bytes, senderData.end)
  if (data === undefined || senderData === undefined || ciphertext?.end !== bytes.length) return undefined
  return {
    groupId: bytes.subarray(groupId.start, groupId.end),
    epoch,
    contentType: bytes[groupId.end + 8] ?? 0,
    authenticatedData: bytes.subarray(data.start, data.end),
    contentData: bytes.subarray(PRIVATE_MESSAGE.length, data.end),
    senderData: bytes.subarray(senderData.start, senderData.end),
    ciphertext: bytes.subarray(ciphertext.start, ciphertext.end),
  }
}
