/**
 * Checksums of stored rows (CRC-32). They detect bit errors on disk, not tampering: anyone who can write the file can
 * correct them.
 */
import { crc32 } from 'node:zlib'

export type Value = number | string | Uint8Array | null

/** Longer values are checksummed in place instead of being copied. */
const SMALL = 256
const scratch = Buffer.alloc(4096)
/** Writes numbers several times as fast as the methods of a Buffer. */
const view = new DataView(scratch.buffer, scratch.byteOffset, scratch.length)
const NULL = 0
const NUMBER = 1
const TEXT = 2
const BYTES = 3

/** The checksum of a row's values, in order. */
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
      view.setFloat64(at, value, true)
      at += 8
    } else {
      const bytes = typeof value === 'string' ? Buffer.from(value) : value
      scratch[at++] = typeof value === 'string' ? TEXT : BYTES
      view.setUint32(at, bytes.length, true)
      at += 4
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
