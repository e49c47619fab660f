/** Error messages for a disk that is full, broken or gone. */
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { fullDisk } from '@static/node/disk-space'

const FULL = /^(SQLITE_FULL|ENOSPC|EDQUOT)$/
/** System error codes. */
const BROKEN = ['EIO', 'ENOSPC', 'EDQUOT', 'EROFS']
/** Those of a directory that was deleted, moved or unmounted, or that this user may no longer use. */
const GONE = ['ENOENT', 'ENOTDIR', 'ESTALE', 'ENODEV', 'EACCES', 'EPERM']
const ERRNOS = new Set([...BROKEN, ...GONE])
/** SQLite's codes for system errors. */
const OF_SQLITE = /^SQLITE_(FULL|IOERR|CANTOPEN|READONLY)/

/** The text of `store_failed`: the problem and the remedy. `reason` is a code from SQLite or the system. */
export function diskFailure(reason: string, path: string): string {
  if (!existsSync(dirname(path)))
    return `The directory ${dirname(path)} is gone (${reason}). Put it back if it was moved or unmounted; without it, this agent is lost.`
  // SQLite often reports only that reading or writing failed. A quota can be used up on a disk that is not full.
  const full = fullDisk(path) ?? (FULL.test(reason) ? `The disk with ${path} is full.` : undefined)
  return full !== undefined
    ? `${full} Free some space, then restart the agent.`
    : `Reading or writing ${path} failed (${reason}). Check the disk and its file system, then restart the agent.`
}

/** Whether a code from SQLite or the system means that the disk failed. */
export function isDiskFailure(code: string): boolean {
  return ERRNOS.has(code) || OF_SQLITE.test(code)
}

/** The code of a system error that means so; undefined for other errors. */
export function diskErrno(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return ERRNOS.has(code) ? code : undefined
}
