/**
 * Bytes to sign, authenticate or hash: every field is prefixed with its length (4 bytes, big-endian); numbers are
 * 8 bytes; a list is one field that contains its items in the same way. Different lists of fields never give the same
 * bytes.
 */

const encoder = new TextEncoder()

export type Field = Uint8Array | string | bigint | readonly Field[]

/** The fields, each prefixed with its length. */
export function lengthPrefixed(fields: readonly Field[]): Uint8Array<ArrayBuffer> {
  const parts = fields.map(toBytes)
  let length = 0
  for (const part of parts) length += 4 + part.length
  const bytes = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    bytes[at] = part.length >>> 24
    bytes[at + 1] = part.length >>> 16
    bytes[at + 2] = part.length >>> 8
    bytes[at + 3] = part.length
    bytes.set(part, at + 4)
    at += 4 + part.length
  }
  return bytes
}

/**
 * The bytes to sign for a purpose. The 64 spaces and the zero, as in TLS 1.3 (RFC 8446 §4.4.3), prevent a signature for
 * one purpose from being valid for another, in this protocol and in others that use the same key.
 */
export function signedBytes(context: string, fields: readonly Field[]): Uint8Array<ArrayBuffer> {
  const head = encoder.encode(`${' '.repeat(64)}${context}\0`)
  const body = lengthPrefixed(fields)
  const bytes = new Uint8Array(head.length + body.length)
  bytes.set(head)
  bytes.set(body, head.length)
  return bytes
}

function toBytes(field: Field): Uint8Array {
  if (field instanceof Uint8Array) return field
  if (typeof field === 'string') return encoder.encode(field)
  if (typeof field === 'bigint') {
    const bytes = new Uint8Array(8)
    new DataView(bytes.buffer).setBigUint64(0, field)
    return bytes
  }
  return lengthPrefixed(field)
}
