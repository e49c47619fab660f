/** What lies in the agent's directory is for its user alone. */
import { lstatSync, statSync } from 'node:fs'
import { checkAccess, checkPrivateFile, makeDirectories } from '@static/node/files'
import { StaticError } from '@static/protocol'

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
  checkAccess(path, found, { refused: 0o077, how: 'accessible', chmod: '700' })
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
  checkPrivateFile(path, found)
  return found.size
}
