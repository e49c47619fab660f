/**
 * What a message says about a file (SPEC.md, 5.1), in place of its payload:
 *
 *     file id(16), secret(32), size(8), length of the name(2), name, length of the type(1), type, length of the text(4),
 *     text; SHA-256 of each part(32), in order
 *
 * MLS signs it, so the sender vouches for every part: a relay together with another member, who knows the key as well,
 * cannot replace one.
 */
import { FILE_ID_BYTES, filePartCount, HASH_BYTES, MAX_FILE_BYTES, paddedFileBytes } from '@static/protocol'
import { concat, utf8, viewOf, writeUint32 } from '../platform/bytes.ts'

/** The length of the secret that a file's key is derived from. */
export const FILE_SECRET_BYTES = 32
/** The longest name, in bytes. */
export const MOST_NAME_BYTES = 1024
/** The longest type. */
export const MOST_TYPE_BYTES = 255
/** The longest text, in bytes. */
export const MOST_TEXT_BYTES = 65_536

/** What a sender says about its file. */
export interface FileFacts {
  readonly fileId: Uint8Array
  readonly secret: Uint8Array
  /** Without padding. */
  readonly size: number
  /** Chosen by the sender: it may be a path, or contain control characters. */
  readonly name: string
  /** A media type, unchecked; empty if the sender gave none. */
  readonly type: string
}

/** A file as its message describes it. */
export interface FileMessage extends FileFacts {
  /** The payload of the message. */
  readonly text: string
  /** SHA-256 of each part, one after the other. */
  readonly digests: Uint8Array
}

const SECRET_AT = FILE_ID_BYTES
const SIZE_AT = SECRET_AT + FILE_SECRET_BYTES
const NAME_AT = SIZE_AT + 8
const NAME_HEAD = 2
const TYPE_HEAD = 1
const TEXT_HEAD = 4

/** How many parts a file of this size has. */
export function partsOfFile(size: number): number {
  return filePartCount(paddedFileBytes(size))
}

/** Whether a text can be the type of a file: printable ASCII. */
export function isFileType(type: string): boolean {
  return /^[\x20-\x7e]*$/.test(type) && type.length <= MOST_TYPE_BYTES
}

export function encodeFile({ fileId, secret, size, name, type, text, digests }: FileMessage): Uint8Array {
  const [nameBytes, typeBytes, textBytes] = [utf8(name), utf8(type), utf8(text)]
  const head = new Uint8Array(NAME_AT + NAME_HEAD)
  const view = viewOf(head)
  head.set(fileId)
  head.set(secret, SECRET_AT)
  view.setBigUint64(SIZE_AT, BigInt(size))
  view.setUint16(NAME_AT, nameBytes.length)
  const textLength = new Uint8Array(TEXT_HEAD)
  writeUint32(textLength, 0, textBytes.length)
  return concat(head, nameBytes, Uint8Array.of(typeBytes.length), typeBytes, textLength, textBytes, digests)
}

/** Decodes the description of a file. Bytes are views. Returns undefined if it is malformed. */
export function decodeFile(bytes: Uint8Array): FileMessage | undefined {
  if (bytes.length < NAME_AT + NAME_HEAD) return undefined
  const view = viewOf(bytes)
  const size = view.getBigUint64(SIZE_AT)
  if (size > BigInt(MAX_FILE_BYTES)) return undefined
  const nameEnd = NAME_AT + NAME_HEAD + view.getUint16(NAME_AT)
  const typeLength = bytes[nameEnd]
  if (typeLength === undefined) return undefined
  const typeEnd = nameEnd + TYPE_HEAD + typeLength
  if (typeEnd + TEXT_HEAD > bytes.length) return undefined
  const textEnd = typeEnd + TEXT_HEAD + view.getUint32(typeEnd)
  if (textEnd + partsOfFile(Number(size)) * HASH_BYTES !== bytes.length) return undefined
  const name = textOf(bytes.subarray(NAME_AT + NAME_HEAD, nameEnd), MOST_NAME_BYTES)
  const type = textOf(bytes.subarray(nameEnd + TYPE_HEAD, typeEnd), MOST_TYPE_BYTES)
  const text = textOf(bytes.subarray(typeEnd + TEXT_HEAD, textEnd), MOST_TEXT_BYTES)
  if (!name || type === undefined || !isFileType(type) || text === undefined) return undefined
  return {
    fileId: bytes.subarray(0, SECRET_AT),
    secret: bytes.subarray(SECRET_AT, SIZE_AT),
    size: Number(size),
    name,
    type,
    text,
    digests: bytes.subarray(textEnd),
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function textOf(bytes: Uint8Array, most: number): string | undefined {
  if (bytes.length > most) return undefined
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}
