/** Whether two byte strings are the same. Not in constant time: compare secrets with `sameBytes` of @static/node. */
export function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}
