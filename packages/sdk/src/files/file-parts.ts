/**
 * The parts of a file as the relay has them (SPEC.md, 5.9): the file is padded with zeros, cut, and each part encrypted
 * under the file's key with a nonce of its own.
 *
 *     part = nonce(12), AES-256-GCM(part of the padded file), with the number of the part(4) as associated data
 *
 * A nonce and the hash of its part are on disk before the part is sent (uploads.ts), so that a nonce never encrypts two
 * plaintexts.
 */
import { type BulkKey, bulkKey, decryptBulk, encryptBulk, hkdfSha256, sha256Bulk } from '#platform/crypto'
import { FILE_PART_BYTES, FILE_PART_OVERHEAD, HASH_BYTES, paddedFileBytes, StaticError } from '@static/protocol'
import { concat, isZero, release, same, utf8, writeUint32 } from '../platform/bytes.ts'
import type { FileFacts } from './file-frame.ts'

export const PART_NONCE_BYTES = 12
const CONTEXT = 'static file 1'
const KEY_BYTES = 32

/** Derives the key of a file. */
export async function fileKey(
  channelId: Uint8Array,
  { fileId, secret }: Pick<FileFacts, 'fileId' | 'secret'>,
): Promise<BulkKey> {
  const bytes = hkdfSha256(secret, new Uint8Array(), concat(utf8(CONTEXT), channelId, fileId), KEY_BYTES)
  try {
    return await bulkKey(Uint8Array.from(bytes))
  } finally {
    bytes.fill(0)
  }
}

/** How many bytes of the file itself a part holds; the rest is padding. */
export function contentBytesOf(size: number, part: number): number {
  return Math.max(0, Math.min(FILE_PART_BYTES, size - part * FILE_PART_BYTES))
}

/** How many bytes a part has before it is encrypted. */
export function plainBytesOf(size: number, part: number): number {
  return Math.min(FILE_PART_BYTES, paddedFileBytes(size) - part * FILE_PART_BYTES)
}

/** How many bytes a part has as the relay stores it. */
export function sealedBytesOf(size: number, part: number): number {
  return plainBytesOf(size, part) + FILE_PART_OVERHEAD
}

/** A part to send, with its hash. */
export interface SealedPart {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly digest: Uint8Array
}

/** Encrypts a part of the padded file. */
export async function sealPart(
  key: BulkKey,
  part: number,
  nonce: Uint8Array<ArrayBuffer>,
  plaintext: Uint8Array<ArrayBuffer>,
): Promise<SealedPart> {
  const sealed = await encryptBulk(key, nonce, dataOf(part), plaintext)
  const bytes = concat(nonce, sealed)
  release(sealed)
  return { bytes, digest: await sha256Bulk(bytes) }
}

/** Whether a part is the one that the sender has signed. */
export async function isSigned(bytes: Uint8Array<ArrayBuffer>, part: number, digests: Uint8Array): Promise<boolean> {
  return same(await sha256Bulk(bytes), digestOf(digests, part))
}

/** The hash of a part. */
export function digestOf(digests: Uint8Array, part: number): Uint8Array {
  return digests.subarray(part * HASH_BYTES, (part + 1) * HASH_BYTES)
}

/**
 * Decrypts a part that `isSigned` has accepted, and returns its bytes of the file without padding.
 *
 * @throws {StaticError} `file_corrupt` if the sender has encrypted it with another key, as another part, or with other
 *   padding than zeros
 */
export async function openPart(
  key: BulkKey,
  size: number,
  part: number,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer>> {
  let plaintext: Uint8Array<ArrayBuffer>
  try {
    const nonce = bytes.subarray(0, PART_NONCE_BYTES)
    plaintext = await decryptBulk(key, nonce, dataOf(part), bytes.subarray(PART_NONCE_BYTES))
  } catch (cause) {
    throw StaticError.of('file_corrupt', `Its sender has sealed part ${part} with another key or number.`, { cause })
  }
  const content = contentBytesOf(size, part)
  if (isZero(plaintext.subarray(content))) return plaintext.subarray(0, content)
  throw StaticError.of('file_corrupt', `Its sender has not padded part ${part} with zeros.`)
}

function dataOf(part: number): Uint8Array<ArrayBuffer> {
  const data = new Uint8Array(4)
  writeUint32(data, 0, part)
  return data
}
