/** Byte strings. */

/** Whether two byte strings are the same; not for secrets. */
export function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}
