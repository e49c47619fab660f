/** Numbers in the relay's messages: 64 bits on the wire, limited here to JavaScript's safe integers. */

const MOST = BigInt(Number.MAX_SAFE_INTEGER)

/** Whether all numbers in a message are safe integers. Byte fields are skipped. */
export function hasSafeNumbers(value: unknown): boolean {
  if (typeof value === 'bigint') return value <= MOST
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return true
  if (Array.isArray(value)) return value.every(hasSafeNumbers)
  // Not by `Object.values`: this runs for every message, and a list of its fields costs more than the check.
  for (const name in value) if (!hasSafeNumbers((value as Record<string, unknown>)[name])) return false
  return true
}
