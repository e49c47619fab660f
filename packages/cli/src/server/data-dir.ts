/**
 * The server's data directory and the secret files in it. Other users of the machine are kept out by owner and mode;
 * root, and programs of the same user, are not.
 */
import { constants, type Stats } from 'node:fs'
import { type FileHandle, mkdir, open, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { StaticError } from '@static/protocol'
import { createFile, isErrno, sweepLeftovers } from '../durable-file.ts'

const OTHERS_WRITE = 0o022
const OTHERS_ANY = 0o077
const TRIES = 5
const CANNOT_MAKE = ['EACCES', 'EPERM', 'EROFS', 'ENOENT']

/** Where `static up` keeps its data unless told otherwise: `<XDG data>/static/server`. */
export function defaultDataDirectory(
  environment: Readonly<Record<string, string | undefined>> = process.env,
  home: string = homedir(),
): string {
  const xdg = environment['XDG_DATA_HOME']
  // The XDG specification: a relative path is invalid and counts as unset.
  const base = xdg !== undefined && isAbsolute(xdg) ? xdg : join(home, '.local', 'share')
  return join(base, 'static', 'server')
}

/**
 * Makes the directory, 0700, or checks the one that exists and clears what a crash left in it.
 *
 * An existing directory may be readable by others (the secret files in it are 0600), but clients find `ca.pem` by
 * themselves only in one that is 0700.
 *
 * Throws `store_permissions` if others can write to it or it is another user's, `invalid_request` if it is no directory.
 */
export async function ensurePrivateDirectory(path: string): Promise<void> {
  let found: Stats
  try {
    await makeDirectories(path)
    found = await stat(path)
  } catch (error) {
    if (isErrno(error, 'EEXIST') || isErrno(error, 'ENOTDIR')) {
      throw invalid(`${path} cannot be the data directory because it, or a part of it, is a file.`, error)
    }
    if (CANNOT_MAKE.some((code) => isErrno(error, code))) {
      throw invalid(`The data directory ${path} cannot be made here: choose another with --data-dir.`, error)
    }
    throw error
  }
  checkAccess(path, found, OTHERS_WRITE, 'writable', '700')
  await sweepLeftovers(path)
}

/**
 * Reads a file that only its owner may read; undefined if there is none.
 *
 * Throws `store_permissions` if others can read or write it or it is another user's.
 */
export async function readSecretFile(path: string): Promise<Buffer | undefined> {
  return await readChecked(path, OTHERS_ANY, 'accessible', '600')
}

/** Reads a file that anyone may read but only its owner may write; undefined if there is none. Throws as above. */
export async function readPublicFile(path: string): Promise<Buffer | undefined> {
  return await readChecked(path, OTHERS_WRITE, 'writable', '644')
}

/**
 * Reads a secret file, or makes it (0600) with what `make` returns. Processes that race get the same content.
 *
 * Throws as `readSecretFile`.
 */
export async function ensureSecretFile(path: string, make: () => Buffer): Promise<Buffer> {
  return await ensure(path, 0o600, readSecretFile, make)
}

/** The same for a public file (0644), whose content may take time to make. */
export async function ensurePublicFile(path: string, make: () => Promise<Buffer>): Promise<Buffer> {
  return await ensure(path, 0o644, readPublicFile, make)
}

/** Not by mkdir's own `recursive`: where a file system takes no directories (/proc), that tries for ever. */
async function makeDirectories(path: string): Promise<void> {
  const make = async (): Promise<boolean> => {
    try {
      await mkdir(path, { mode: 0o700 })
      return true
    } catch (error) {
      if (isErrno(error, 'EEXIST') && (await stat(path)).isDirectory()) return true
      if (isErrno(error, 'ENOENT')) return false
      throw error
    }
  }
  if (await make()) return
  await makeDirectories(dirname(path))
  if (!(await make())) throw Object.assign(new Error(`${path} cannot be made`), { code: 'ENOENT' })
}

async function ensure(
  path: string,
  mode: number,
  read: (path: string) => Promise<Buffer | undefined>,
  make: () => Buffer | Promise<Buffer>,
): Promise<Buffer> {
  // More than one round only if somebody deletes the file at the same time.
  for (let round = 0; round < TRIES; round++) {
    const present = await read(path)
    if (present !== undefined) return present
    const made = await make()
    if (await createFile(path, made, mode)) return made
  }
  throw invalid(`${path} disappears while it is being read: let no other program delete it.`)
}

async function readChecked(path: string, refused: number, how: string, chmod: string): Promise<Buffer | undefined> {
  let file: FileHandle
  try {
    // Without O_NONBLOCK a FIFO in this place would hang the start.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return undefined
    if (isErrno(error, 'EACCES')) {
      throw new StaticError('store_permissions', `${path} is not readable: run as the user that made it.`, {
        cause: error,
      })
    }
    throw error
  }
  await using opened = file
  // Of the open file, not of the path: what is checked is what is read.
  const found = await opened.stat()
  if (!found.isFile()) throw invalid(`${path} is not a regular file.`)
  checkAccess(path, found, refused, how, chmod)
  return await opened.readFile()
}

function checkAccess(path: string, found: Stats, refused: number, how: string, chmod: string): void {
  const user = process.geteuid?.()
  // No user ids: the system has no such permissions either.
  if (user === undefined) return
  if (found.uid !== user) {
    throw new StaticError(
      'store_permissions',
      `${path} belongs to another user (id ${found.uid}): run as that user, or choose another data directory.`,
    )
  }
  if ((found.mode & refused) !== 0) {
    throw new StaticError(
      'store_permissions',
      `${path} is ${how} by other users: run \`chmod ${chmod} ${quoted(path)}\`.`,
    )
  }
}

function quoted(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`
}

function invalid(message: string, cause?: unknown): StaticError {
  return new StaticError('invalid_request', message, { cause })
}
