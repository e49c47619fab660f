/**
 * The agent's directory and the small files in it. Other users of the machine are kept out by owner and mode; root, and
 * programs of the same user, are not. A file is either whole or absent, whatever crashes: written beside its place,
 * synced, then put there in one step.
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

const OTHERS = 0o077
const TEMPORARY = /^[0-9a-f]{16}\.tmp$/
// A writer needs milliseconds; anything this old belongs to one that died.
const LEFTOVER_AGE_MS = 60_000

/**
 * Makes a directory, 0700, or checks the one that exists.
 *
 * Throws `store_permissions` if others can enter it or it is another user's, `invalid_request` if it cannot be made.
 */
export function ensurePrivateDirectory(path: string): void {
  try {
    makeDirectories(path)
  } catch (error) {
    throw new StaticError('invalid_request', `The agent's directory ${path} cannot be made here: choose another.`, {
      cause: error,
    })
  }
  const found = statSync(path)
  if (!found.isDirectory()) throw new StaticError('invalid_request', `${path} is not a directory.`)
  checkAccess(path, found, '700')
}

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
 * The size of a file that only its owner may read; undefined if there is none. Never opens it: closing any descriptor
 * of a database drops the locks that SQLite holds on it in this process.
 *
 * Throws `store_permissions` if others can read or write it or it is another user's.
 */
export function privateFileSize(path: string): number | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return undefined
  if (!found.isFile()) throw new StaticError('invalid_request', `${path} is not a regular file.`)
  checkAccess(path, found, '600')
  return found.size
}

/** Reads a file that only its owner may read; undefined if there is none. Throws as `privateFileSize`. */
export function readPrivateFile(path: string): Buffer | undefined {
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
    const found = fstatSync(file)
    if (!found.isFile()) throw new StaticError('invalid_request', `${path} is not a regular file.`)
    checkAccess(path, found, '600')
    return readFileSync(file)
  } finally {
    closeSync(file)
  }
}

/** Writes a file, 0600, unless it exists; says whether it did. Of several writers at once exactly one gets true. */
export function createPrivateFile(path: string, content: string | Uint8Array): boolean {
  // link() fails on an existing target, where rename() would replace it: the first one wins.
  return place(path, content, (temporary) => {
    try {
      linkSync(temporary, path)
      return true
    } catch (error) {
      if (isErrno(error, 'EEXIST')) return false
      throw error
    }
  })
}

/** Writes a file, 0600, in the place of the one that may be there. */
export function replacePrivateFile(path: string, content: string | Uint8Array): void {
  place(path, content, (temporary) => {
    renameSync(temporary, path)
    return true
  })
}

/** Removes what a killed writer of this file left beside it; that can hold a key. */
export function sweepLeftovers(path: string, now: number = Date.now()): void {
  const directory = dirname(path)
  const prefix = `.${basename(path)}.`
  for (const name of listed(directory)) {
    if (!name.startsWith(prefix) || !TEMPORARY.test(name.slice(prefix.length))) continue
    const leftover = join(directory, name)
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

function place(path: string, content: string | Uint8Array, put: (temporary: string) => boolean): boolean {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(8).toString('hex')}.tmp`)
  try {
    const file = openSync(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600)
    try {
      // Not by open(): there the umask takes bits away.
      fchmodSync(file, 0o600)
      writeFileSync(file, content)
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

function checkAccess(path: string, found: Stats, chmod: string): void {
  const user = process.geteuid?.()
  // No user ids: the system has no such permissions either.
  if (user === undefined) return
  if (found.uid !== user) {
    throw new StaticError(
      'store_permissions',
      `${path} belongs to another user (id ${found.uid}): run as that user, or choose another directory.`,
    )
  }
  if ((found.mode & OTHERS) !== 0) {
    throw new StaticError(
      'store_permissions',
      `${path} is accessible by other users: run \`chmod ${chmod} ${quoted(path)}\`.`,
    )
  }
}

function quoted(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
