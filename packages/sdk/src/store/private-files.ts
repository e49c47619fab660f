/** Checks that the files in an agent's directory are accessible to their owner only. */
import { lstatSync, statSync } from 'node:fs'
import { checkAccess, checkPrivateFile, makeDirectories } from '@static/node/files'
import { StaticError } from '@static/protocol'

/**
 * Creates a directory with mode 0700, or checks an existing one.
 *
 * Throws `store_permissions` if others can enter it or another user owns it, `invalid_request` if it cannot be created.
 */
export function ensurePrivateDirectory(path: string): void {
  try {
    makeDirectories(path)
  } catch (error) {
    throw new StaticError('invalid_request', `The agent's directory ${path} cannot be created. Choose another.`, {
      cause: error,
    })
  }
  const found = statSync(path)
  if (!found.isDirectory()) throw new StaticError('invalid_request', `${path} is not a directory.`)
  checkAccess(path, found, { refused: 0o077, how: 'accessible', chmod: '700' })
}

/**
 * The size of a file that only its owner may read; undefined if it does not exist. Never opens the file: closing any
 * descriptor of a database drops the locks that SQLite holds on it in this process.
 *
 * Throws `store_permissions` if others can read or write it or another user owns it.
 */
export function privateFileSize(path: string): number | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return undefined
  checkPrivateFile(path, found)
  return found.size
}
