/** Whether a disk is full: SQLite and the system often report only that reading or writing has failed. */
import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'

/** With less than this a database can neither be opened nor written to. */
const FULL_BYTES = 256 * 1024

/** Says that the disk with this file is full; undefined if it is not, or if that cannot be found out. */
export function fullDisk(path: string): string | undefined {
  try {
    const { bavail, bsize } = statfsSync(dirname(path))
    const free = bavail * bsize
    return free < FULL_BYTES ? `The disk with ${path} is full (${free} bytes free).` : undefined
  } catch {
    return undefined
  }
}
