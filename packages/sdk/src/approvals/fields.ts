/** Reads what `lengthPrefixed` writes (SPEC.md, 3.3): fields, each with its length in front. */
import { viewOf } from '../platform/bytes.ts'

const HEAD_BYTES = 4
const NUMBER_BYTES = 8
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The fields as views of the bytes; undefined if a length does not fit, or there are more than `most`. */
export function readFields(bytes: Uint8Array, most: number): readonly Uint8Array[] | undefined {
  const view = viewOf(bytes)
  const fields: Uint8Array[] = []
  for (let at = 0; at < bytes.length;) {
    if (fields.length === most || at + HEAD_BYTES > bytes.length) return undefined
    const start = at + HEAD_BYTES
    at = start + view.getUint32(at)
    if (at > bytes.length) return undefined
    fields.push(bytes.subarray(start, at))
  }
  return fields
}

/** The number in a field; undefined if it is none, or not exact. */
export function numberIn(field: Uint8Array): number | undefined {
  if (field.length !== NUMBER_BYTES) return undefined
  const value = Number(viewOf(field).getBigUint64(0))
  return Number.isSafeInteger(value) ? value : undefined
}

/** The text in a field; undefined if it is longer than `most` bytes, or not UTF-8. */
export function textIn(field: Uint8Array, most: number): string | undefined {
  if (field.length > most) return undefined
  try {
    return decoder.decode(field)
  } catch {
    return undefined
  }
}
