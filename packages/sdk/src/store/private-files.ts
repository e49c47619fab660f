/** Checks that the files in an agent's directory are accessible to their owner only, and keeps them out of git. */
import { lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { checkAccess, checkPrivateFile, createFile, makeDirectories } from '@static/node/files'
import { StaticError } from '@static/protocol'

const GIT_IGNORE = '.gitignore'
const EVERYTHING = '# Keys and messages of a Static agent.\n*\n'

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

/** Keeps git from adding the keys of a new agent. A directory that already has other files is left alone. */
export function ignoreInGit(directory: string): void {
  if (readdirSync(directory).length === 0) createFile(join(directory, GIT_IGNORE), EVERYTHING, 0o600)
}

/** Whether a file is the one that `ignoreInGit` wrote. */
export function isOwnGitIgnore(directory: string, name: string): boolean {
  const path = join(directory, name)
  return name === GIT_IGNORE && lstatSync(path).isFile() && readFileSync(path, 'utf8') === EVERYTHING
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
