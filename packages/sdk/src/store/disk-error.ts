/** What is said of a disk that is full or broken. */
import { fullDisk } from '@static/node/disk-space'

const FULL = /^(SQLITE_FULL|ENOSPC|EDQUOT)$/
/** Codes of the system. */
const ERRNOS = new Set(['EIO', 'ENOSPC', 'EDQUOT', 'EROFS'])
/** Codes of SQLite for an error of the system. */
const OF_SQLITE = /^SQLITE_(FULL|IOERR|CANTOPEN|READONLY)/

/** The text of `store_failed`: what is wrong, and what to do. `reason` is a code of SQLite or the system. */
export function diskFailure(reason: string, path: string): string {
  // SQLite often says only that reading or writing has failed. A quota can be used up on a disk that is not full.
  const full = fullDisk(path) ?? (FULL.test(reason) ? `The disk with ${path} is full.` : undefined)
  return full !== undefined
    ? `${full} Free some space, then restart the agent.`
    : `Reading or writing ${path} failed (${reason}). Check the disk and its file system, then restart the agent.`
}

/** Whether a code of SQLite or the system says that the disk has failed. */
export function isDiskFailure(code: string): boolean {
  return ERRNOS.has(code) || OF_SQLITE.test(code)
}

/** The code of a system error that says so; undefined for other errors. */
export function diskErrno(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return ERRNOS.has(code) ? code : undefined
}
