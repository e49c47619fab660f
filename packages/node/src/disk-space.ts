/** Whether a disk is full: SQLite and the system often report only that reading or writing failed. */
import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'

/** With less free space than this, a database can be neither opened nor written. */
const FULL_BYTES = 256 * 1024

/** A message if the disk with this file is full; undefined if it is not, or if that cannot be determined. */
export function fullDisk(path: string): string | undefined {
  try {
    const { bavail, bsize } = statfsSync(dirname(path))
    const free = bavail * bsize
    return free < FULL_BYTES ? `The disk with ${path} is full (${free} bytes free).` : undefined
  } catch {
    return undefined
  }
}
