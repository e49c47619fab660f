/** Numbers in the relay's messages: 64 bits on the wire, limited here to JavaScript's safe integers. */

/** Whether all numbers in a message are safe integers. Byte fields are skipped. */
export function hasSafeNumbers(value: unknown): boolean {
  if (typeof value === 'bigint') return value <= BigInt(Number.MAX_SAFE_INTEGER)
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return true
  return Array.isArray(value) ? value.every(hasSafeNumbers) : Object.values(value).every(hasSafeNumbers)
}
