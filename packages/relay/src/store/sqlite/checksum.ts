/**
 * Checksums of stored rows (CRC-32). They are against disks that change bits, not against people: whoever can write the
 * file can make them right again. What agents must not be lied to about is covered by the hash chain.
 */
import { crc32 } from 'node:zlib'
import { StaticError } from '@static/protocol'

/** What a column holds. */
export type Value = number | string | Uint8Array | null

/** Beyond this a value is looked at by itself instead of being copied. */
const SMALL = 256
const scratch = Buffer.allocUnsafe(4096)
const NULL = 0
const NUMBER = 1
const TEXT = 2
const BYTES = 3

/** Of the values of a row, in their order. */
export function checksum(row: readonly Value[]): number {
  let sum = 0
  let at = 0
  const drain = (): void => {
    sum = crc32(scratch.subarray(0, at), sum)
    at = 0
  }
  for (const value of row) {
    if (at > scratch.length - 2 * SMALL) drain()
    if (value === null) {
      scratch[at++] = NULL
    } else if (typeof value === 'number') {
      scratch[at++] = NUMBER
      at = scratch.writeDoubleLE(value, at)
    } else {
      const bytes = typeof value === 'string' ? Buffer.from(value) : value
      scratch[at++] = typeof value === 'string' ? TEXT : BYTES
      at = scratch.writeUInt32LE(bytes.length, at)
      if (bytes.length <= SMALL) {
        scratch.set(bytes, at)
        at += bytes.length
      } else {
        drain()
        sum = crc32(bytes, sum)
      }
    }
  }
  drain()
  return sum
}

/** A row with its checksum. */
export function sealed<Row extends readonly Value[]>(row: Row): [...Row, number] {
  return [...row, checksum(row)]
}

/** The values of a row that ends with its checksum. Throws `store_corrupt` if it is not theirs, or there is no row. */
export function intact(row: unknown, what: string): unknown {
  const values = [...((row as readonly Value[] | undefined) ?? [])]
  const sum = values.pop()
  if (sum === undefined || sum !== checksum(values)) throw damaged(what)
  return values
}

/** That something stored is not what was stored. */
export function damaged(what: string): StaticError {
  return StaticError.of('store_corrupt', `The store is damaged (${what}): restore it from a backup.`)
}
