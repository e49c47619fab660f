/**
 * The server's data directory and the secret files in it. Owner and mode keep out other users of the machine, but not
 * root or other programs of the same user.
 */
import { existsSync, type Stats, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import {
  checkAccess,
  createFile,
  isErrno,
  makeDirectories,
  readPrivateFile,
  readPublicFile,
  sweepDirectory,
} from '@static/node/files'
import { StaticError } from '@static/protocol'

const TRIES = 5
/** Marks a directory while `static admin restore` fills it. */
export const INCOMPLETE = 'restore.incomplete'
/** Why a user cannot create a directory. */
export const CANNOT_MAKE: readonly string[] = ['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR']

/** The default data directory of `static up`: `<XDG data>/static/server`. */
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
 * Creates the directory with mode 0700, or checks the existing one and removes temporary files that a crash left in it.
 *
 * An existing directory may be readable by others (the secret files in it are 0600), but clients find `ca.pem`
 * automatically only in one with mode 0700.
 *
 * Throws `store_permissions` if others can write to it or it belongs to another user, `invalid_request` if it is not a
 * directory, or a restore into it was interrupted.
 */
export function ensurePrivateDirectory(path: string): void {
  let found: Stats
  try {
    makeDirectories(path)
    found = statSync(path)
  } catch (error) {
    if (isErrno(error, 'ENOTDIR')) throw notDirectory(path, error)
    if (CANNOT_MAKE.some((code) => isErrno(error, code))) {
      throw invalid(`Cannot create the data directory ${path}. Choose another one with --data-dir.`, error)
    }
    throw error
  }
  if (!found.isDirectory()) throw notDirectory(path)
  checkAccess(path, found, { refused: 0o022, how: 'writable', chmod: '700' })
  if (existsSync(join(path, INCOMPLETE))) {
    throw invalid(
      `A restore into ${path} was interrupted. Delete its content, then run \`static admin restore\` again.`,
    )
  }
  sweepDirectory(path)
}

/**
 * Reads a secret file, or creates it (0600) with the result of `make`. Racing processes get the same content.
 *
 * Throws as `readPrivateFile`.
 */
export async function ensureSecretFile(path: string, make: () => Buffer): Promise<Buffer> {
  return await ensure(path, 0o600, readPrivateFile, make)
}

/** The same for a public file (0644) whose content is created asynchronously. */
export async function ensurePublicFile(path: string, make: () => Promise<Buffer>): Promise<Buffer> {
  return await ensure(path, 0o644, readPublicFile, make)
}

async function ensure(
  path: string,
  mode: number,
  read: (path: string) => Buffer | undefined,
  make: () => Buffer | Promise<Buffer>,
): Promise<Buffer> {
  // A second round is needed only if another process deletes the file meanwhile.
  for (let round = 0; round < TRIES; round++) {
    const present = read(path)
    if (present !== undefined) return present
    const made = await make()
    if (createFile(path, made, mode)) return made
  }
  throw invalid(`${path} keeps disappearing. Make sure that no other program deletes it.`)
}

function notDirectory(path: string, cause?: unknown): StaticError {
  return invalid(`${path} cannot be the data directory: it, or one of its parents, is a file.`, cause)
}

function invalid(message: string, cause?: unknown): StaticError {
  return new StaticError('invalid_request', message, { cause })
}
