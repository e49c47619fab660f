/** Records as JSON, with bytes and big integers. */
import { fromHex, toHex } from '@static/protocol'

/** A record as JSON, for records that are seldom written and never searched. */
export function toJson(record: object): string {
  return JSON.stringify(record, function (this: Record<string, unknown>, key) {
    // Not the second argument: for a Buffer that is the result of its own toJSON.
    const value = this[key]
    if (typeof value === 'bigint') return { $integer: String(value) }
    return value instanceof Uint8Array ? { $bytes: toHex(value) } : value
  })
}

export function fromJson(text: string): unknown {
  return JSON.parse(text, (_key, value: { $bytes?: string; $integer?: string } | null) => {
    if (typeof value !== 'object' || value === null) return value
    if (value.$bytes !== undefined) return new Uint8Array(fromHex(value.$bytes))
    return value.$integer === undefined ? value : BigInt(value.$integer)
  })
}
