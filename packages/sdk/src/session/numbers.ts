/** Numbers of the relay's messages: 64 bits on the wire, and no more here than JavaScript counts exactly. */

/** Whether all numbers in a message can be taken as they are. Bytes are not looked into. */
export function hasSafeNumbers(value: unknown): boolean {
  if (typeof value === 'bigint') return value <= BigInt(Number.MAX_SAFE_INTEGER)
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return true
  return Array.isArray(value) ? value.every(hasSafeNumbers) : Object.values(value).every(hasSafeNumbers)
}
