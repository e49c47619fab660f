/** Byte strings and their names. */

/** Lower-case hexadecimal. */
export function toHex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')
}

/** The bytes of hexadecimal digits. */
export function fromHex(digits: string): Uint8Array {
  return new Uint8Array(Buffer.from(digits, 'hex'))
}

/** Whether two byte strings are the same; not for secrets. */
export function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}
