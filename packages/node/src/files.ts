/**
 * Directories and small files that contain secrets. Owner and mode keep other users of the machine out, but not root
 * or programs of the same user. After any crash a file is either complete or absent: it is written under a temporary
 * name in the same directory, synced, then moved in one step. Does not protect against a disk that lies about fsync.
 */
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { StaticError } from '@static/protocol'
import { fullDisk } from './disk-space.ts'

/** Access that other users must not have to a file or directory, and how the owner revokes it. */
export interface Access {
  /** The mode bits that must not be set. */
  readonly refused: number
  /** The access that other users have if one of the bits is set. */
  readonly how: 'accessible' | 'writable'
  readonly chmod: '600' | '644' | '700'
}

/** Only the owner may read or write. */
const PRIVATE_FILE: Access = { refused: 0o077, how: 'accessible', chmod: '600' }
/** Anyone may read, only the owner may write. */
const PUBLIC_FILE: Access = { refused: 0o022, how: 'writable', chmod: '644' }

const LEFTOVER = /^\.(.+)\.[0-9a-f]{16}\.tmp$/
// A write takes milliseconds; a temporary file this old was left by a process that died.
const LEFTOVER_AGE_MS = 60_000

/** Creates a directory and its missing parents, mode 0700. */
export function makeDirectories(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })) return
  // Not with mkdir's `recursive`: on a file system that cannot create directories (/proc), it loops forever.
  makeDirectories(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error
  }
}

/**
 * Reads a file that only its owner may read; undefined if it does not exist.
 *
 * Throws `store_permissions` if other users can read or write it, or if it belongs to another user.
 */
export function readPrivateFile(path: string): Buffer | undefined {
  return readChecked(path, PRIVATE_FILE)
}

/**
 * Reads a file that anyone may read but only its owner may write; undefined if it does not exist.
 *
 * Throws `store_permissions` if other users can write it, or if it belongs to another user.
 */
export function readPublicFile(path: string): Buffer | undefined {
  return readChecked(path, PUBLIC_FILE)
}

/** Writes a file unless it exists; returns whether it did. If several write concurrently, exactly one gets true. */
export function createFile(path: string, content: string | Uint8Array, mode: number): boolean {
  // link() fails if the target exists, whereas rename() would replace it: the first writer wins.
  return place(path, content, mode, (temporary) => {
    try {
      linkSync(temporary, path)
      return true
    } catch (error) {
      if (isErrno(error, 'EEXIST')) return false
      throw error
    }
  })
}

/** Writes a file, replacing an existing one. */
export function replaceFile(path: string, content: string | Uint8Array, mode: number): void {
  place(path, content, mode, (temporary) => {
    renameSync(temporary, path)
    return true
  })
}

/** Removes temporary files that a killed process left for this file; they may contain a key. */
export function sweepLeftovers(path: string, now: number = Date.now()): void {
  sweep(dirname(path), (name) => name === basename(path), now)
}

/** Removes temporary files that killed processes left for any file in a directory. */
export function sweepDirectory(directory: string, now: number = Date.now()): void {
  sweep(directory, () => true, now)
}

/**
 * Checks the owner and mode of a file or directory.
 *
 * Throws `store_permissions` if other users have access, or if it belongs to another user.
 */
export function checkAccess(path: string, found: Stats, { refused, how, chmod }: Access): void {
  const user = process.geteuid?.()
  // A system without user ids has no file modes either.
  if (user === undefined) return
  if (found.uid !== user) {
    throw new StaticError(
      'store_permissions',
      `${path} belongs to another user (id ${found.uid}). Run as that user, or choose another directory.`,
    )
  }
  if ((found.mode & refused) !== 0) {
    throw new StaticError(
      'store_permissions',
      `${path} is ${how} by other users: run \`chmod ${chmod} ${quoted(path)}\`.`,
    )
  }
}

/** Checks that a path is a file that only its owner can access. Throws like `checkAccess`. */
export function checkPrivateFile(path: string, found: Stats): void {
  checkFile(path, found, PRIVATE_FILE)
}

/** Whether an error is a failed system call with this code. */
export function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

function readChecked(path: string, access: Access): Buffer | undefined {
  let file: number
  try {
    // Without O_NONBLOCK, a FIFO at this path would block forever.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined
    if (!isErrno(error, 'EACCES')) throw error
    throw new StaticError(
      'store_permissions',
      `${path} cannot be read by this user. Run as the user that created it.`,
      {
        cause: error,
      },
    )
  }
  try {
    // Checks the open file, not the path, so that the file checked is the file read.
    checkFile(path, fstatSync(file), access)
    return readFileSync(file)
  } finally {
    closeSync(file)
  }
}

function checkFile(path: string, found: Stats, access: Access): void {
  if (!found.isFile()) throw new StaticError('invalid_request', `${path} is not a regular file.`)
  checkAccess(path, found, access)
}

function sweep(directory: string, isWanted: (name: string) => boolean, now: number): void {
  for (const entry of listed(directory)) {
    const name = LEFTOVER.exec(entry)?.[1]
    if (name === undefined || !isWanted(name)) continue
    const leftover = join(directory, entry)
    const found = lstatSync(leftover, { throwIfNoEntry: false })
    if (found !== undefined && now - found.mtimeMs > LEFTOVER_AGE_MS) rmSync(leftover, { force: true })
  }
}

/** A key file may be in a directory that this user can neither list nor write: then there is nothing to clean up. */
function listed(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    if (isErrno(error, 'EACCES')) return []
    throw error
  }
}

function place(path: string, content: string | Uint8Array, mode: number, put: (temporary: string) => boolean): boolean {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(8).toString('hex')}.tmp`)
  try {
    const file = openSync(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)
    try {
      writeFileSync(file, content)
      // Not with open(), which applies the umask.
      fchmodSync(file, mode)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    const placed = put(temporary)
    syncDirectory(dirname(path))
    return placed
  } catch (error) {
    const full = isErrno(error, 'ENOSPC') ? fullDisk(path) : undefined
    if (full === undefined) throw error
    throw new StaticError('store_failed', `${full} Free some space, then try again.`, { cause: error })
  } finally {
    rmSync(temporary, { force: true })
  }
}

/** Makes the names in a directory durable. */
export function syncDirectory(path: string): void {
  const directory = openSync(path, constants.O_RDONLY)
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}

function quoted(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`
}
