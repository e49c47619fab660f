/** The token of `static mcp --http`: made once for each agent, and kept for the next start in a file of its user. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { createFile, makeDirectories, readPrivateFile } from '@static/node/files'
import { StaticError } from '@static/protocol'

const NAME = 'mcp-token'
const TOKEN_BYTES = 32
const TOKEN = /^[\w-]{43}$/

export interface HttpToken {
  readonly token: string
  readonly path: string
  /** Whether it was made now. */
  readonly isNew: boolean
}

/**
 * The token of an agent.
 *
 * @throws {StaticError} `store_permissions` if others can read the file, `store_corrupt` if it holds something else
 */
export function httpToken(agentDirectory: string): HttpToken {
  const path = join(agentDirectory, NAME)
  const isNew = readPrivateFile(path) === undefined
  if (isNew) {
    makeDirectories(agentDirectory)
    createFile(path, `${randomBytes(TOKEN_BYTES).toString('base64url')}\n`, 0o600)
  }
  const token = readPrivateFile(path)?.toString().trim() ?? ''
  if (TOKEN.test(token)) return { token, path, isNew }
  throw StaticError.of(
    'store_corrupt',
    `${path} does not contain a token. Delete it, and the next start makes another.`,
  )
}
