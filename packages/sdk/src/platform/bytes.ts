/** Helpers for byte strings that work on every platform. */

const POOL_BYTES = 65_536
/** Longer ones would waste the rest of a pool. */
const LONGEST_POOLED = 4096
let pool = new Uint8Array(POOL_BYTES)
let poolUsed = 0

/** An array that shares its memory with others: for a few hundred bytes, separate memory takes ten times as long. */
export function allocate(length: number): Uint8Array {
  if (length > LONGEST_POOLED) return new Uint8Array(length)
  if (poolUsed + length > POOL_BYTES) {
    pool = new Uint8Array(POOL_BYTES)
    poolUsed = 0
  }
  poolUsed += length
  return pool.subarray(poolUsed - length, poolUsed)
}

export function concat(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return concatAll(parts)
}

/** For lists of any length, because a call takes a limited number of arguments. */
export function concatAll(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/** Whether two byte strings are the same. Not in constant time: compare secrets with `sameBytes`. */
export function same(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length !== other.length) return false
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false
  return true
}

/** Whether all bytes are zero. Checks four at a time, because padding and rings are long. */
export function isZero(bytes: Uint8Array): boolean {
  const { buffer, byteOffset, length } = bytes
  let at = 0
  for (; at < length && ((byteOffset + at) & 3) !== 0; at++) if (bytes[at] !== 0) return false
  if (length - at >= 4) {
    const words = new Uint32Array(buffer, byteOffset + at, (length - at) >>> 2)
    for (let word = 0; word < words.length; word++) if (words[word] !== 0) return false
    at += 4 * words.length
  }
  for (; at < length; at++) if (bytes[at] !== 0) return false
  return true
}

/**
 * Frees the memory of a long array now, and not at some garbage collection. It has no bytes afterwards, nor has any
 * other array on the same memory.
 */
export function release({ buffer }: Uint8Array<ArrayBuffer>): void {
  buffer.transfer(0)
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Writes four bytes, highest first, and returns the offset after them. Does not use a DataView, which costs more. */
export function writeUint32(bytes: Uint8Array, at: number, value: number): number {
  let next = at
  bytes[next++] = value >>> 24
  bytes[next++] = value >>> 16
  bytes[next++] = value >>> 8
  bytes[next++] = value
  return next
}

/** The maximum number of arguments in one call. */
const MOST_CHARACTERS = 4096

/**
 * Text with one character for each byte. Also usable as a key of a Map or a member of a Set, since arrays compare by
 * identity.
 */
export function latin1(bytes: Uint8Array): string {
  if (bytes.length <= MOST_CHARACTERS) return characters(bytes)
  let text = ''
  for (let at = 0; at < bytes.length; at += MOST_CHARACTERS)
    text += characters(bytes.subarray(at, at + MOST_CHARACTERS))
  return text
}

function characters(bytes: Uint8Array): string {
  // A spread would iterate, which takes ten times as long.
  return Reflect.apply(String.fromCharCode, undefined, bytes)
}

const SHORT_TEXT = 128
const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text)
}

/** Writes text and returns its length in bytes. There must be room for three bytes per character. */
export function writeUtf8(bytes: Uint8Array, at: number, text: string): number {
  const { length } = text
  // For short text, such as an id, the call would take longer than writing its characters.
  if (length > SHORT_TEXT) return encoder.encodeInto(text, bytes.subarray(at)).written
  for (let n = 0; n < length; n++) {
    const unit = text.charCodeAt(n)
    if (unit > 0x7f) return encoder.encodeInto(text, bytes.subarray(at)).written
    bytes[at + n] = unit
  }
  return length
}

/** Invalid bytes become U+FFFD. */
export function utf8Text(bytes: Uint8Array): string {
  return decoder.decode(bytes)
}

export function toBase64(bytes: Uint8Array): string {
  return btoa(latin1(bytes))
}

/** Without padding (RFC 4648, section 5). */
export function toBase64url(bytes: Uint8Array): string {
  return toBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/**
 * The bytes of a text from `toBase64url`; undefined for any other text: one that decodes to the same bytes was altered.
 */
export function fromBase64url(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[\w-]*$/.test(text) || text.length % 4 === 1) return undefined
  const bytes = Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (each) => each.charCodeAt(0))
  return toBase64url(bytes) === text ? bytes : undefined
}
