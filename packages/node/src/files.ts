/**
 * Directories and small files that hold secrets. Other users of the machine are kept out by owner and mode; root, and
 * programs of the same user, are not. A file is either whole or absent, whatever crashes: written beside its place,
 * synced, then put there in one step. Does not protect against a disk that lies about fsync.
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

/** Who but the owner may do what with a file or directory, and how the owner sets it right. */
export interface Access {
  /** The bits of the mode that must not be set. */
  readonly refused: number
  /** What others can do when one of them is. */
  readonly how: 'accessible' | 'writable'
  /** The mode to give it. */
  readonly chmod: '600' | '644' | '700'
}

/** A file for its owner alone. */
const PRIVATE_FILE: Access = { refused: 0o077, how: 'accessible', chmod: '600' }
/** A file that anyone may read. */
const PUBLIC_FILE: Access = { refused: 0o022, how: 'writable', chmod: '644' }

const LEFTOVER = /^\.(.+)\.[0-9a-f]{16}\.tmp$/
// A writer needs milliseconds; anything this old belongs to one that died.
const LEFTOVER_AGE_MS = 60_000

/** Makes a directory, 0700, and those above it that are missing. */
export function makeDirectories(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })) return
  // Not by mkdir's own `recursive`: where a file system takes no directories (/proc), that tries for ever.
  makeDirectories(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error
  }
}

/**
 * Reads a file that only its owner may read; undefined if there is none.
 *
 * Throws `store_permissions` if others can read or write it or it is another user's.
 */
export function readPrivateFile(path: string): Buffer | undefined {
  return readChecked(path, PRIVATE_FILE)
}

/**
 * Reads a file that anyone may read but only its owner may write; undefined if there is none.
 *
 * Throws `store_permissions` if others can write it or it is another user's.
 */
export function readPublicFile(path: string): Buffer | undefined {
  return readChecked(path, PUBLIC_FILE)
}

/** Writes a file unless it exists; says whether it did. Of several writers at once exactly one gets true. */
export function createFile(path: string, content: string | Uint8Array, mode: number): boolean {
  // link() fails on an existing target, where rename() would replace it: the first one wins.
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

/** Writes a file in the place of the one that may be there. */
export function replaceFile(path: string, content: string | Uint8Array, mode: number): void {
  place(path, content, mode, (temporary) => {
    renameSync(temporary, path)
    return true
  })
}

/** Removes what a killed writer left beside this file; that can hold a key. */
export function sweepLeftovers(path: string, now: number = Date.now()): void {
  sweep(dirname(path), (name) => name === basename(path), now)
}

/** Removes what killed writers left of any file in a directory. */
export function sweepDirectory(directory: string, now: number = Date.now()): void {
  sweep(directory, () => true, now)
}

/**
 * Checks who can reach what was found at a path.
 *
 * Throws `store_permissions` if others can or it is another user's.
 */
export function checkAccess(path: string, found: Stats, { refused, how, chmod }: Access): void {
  const user = process.geteuid?.()
  // No user ids: the system has no such permissions either.
  if (user === undefined) return
  if (found.uid !== user) {
    throw new StaticError(
      'store_permissions',
      `${path} belongs to another user (id ${found.uid}): run as that user, or choose another directory.`,
    )
  }
  if ((found.mode & refused) !== 0) {
    throw new StaticError(
      'store_permissions',
      `${path} is ${how} by other users: run \`chmod ${chmod} ${quoted(path)}\`.`,
    )
  }
}

/** Checks that what was found at a path is a file for its owner alone. Throws as `checkAccess`. */
export function checkPrivateFile(path: string, found: Stats): void {
  checkFile(path, found, PRIVATE_FILE)
}

/** Whether a system call failed with the given code. */
export function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

function readChecked(path: string, access: Access): Buffer | undefined {
  let file: number
  try {
    // Without O_NONBLOCK a FIFO in this place would hang the start.
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined
    if (!isErrno(error, 'EACCES')) throw error
    throw new StaticError('store_permissions', `${path} is not readable: run as the user that made it.`, {
      cause: error,
    })
  }
  try {
    // Of the open file, not of the path: what is checked is what is read.
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

/** A key file may lie where this user can neither list nor write: nothing of ours is left over there. */
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
      // Not by open(): there the umask takes bits away.
      fchmodSync(file, mode)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    const placed = put(temporary)
    syncDirectory(dirname(path))
    return placed
  } finally {
    rmSync(temporary, { force: true })
  }
}

function syncDirectory(path: string): void {
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
