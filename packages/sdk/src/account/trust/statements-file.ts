/** The statements that an agent can show, one of each domain, in a file of its directory. */
import { join } from 'node:path'
import { readPrivateFile, replaceFile, sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { readStatement, type Statement } from '../../proofs/statement.ts'

/** In the agent's directory. */
export const STATEMENTS_FILE = 'statements.json'

/** A statement with its JWT. */
export interface HeldStatement extends Statement {
  readonly jwt: string
}

/**
 * The statements in an agent's directory.
 *
 * @throws {StaticError} `store_permissions` if others can access the file, `invalid_request` if it is damaged
 */
export function heldStatements(dataDir: string): readonly HeldStatement[] {
  const path = join(dataDir, STATEMENTS_FILE)
  const bytes = readPrivateFile(path)
  if (bytes === undefined) return []
  try {
    const jwts = JSON.parse(bytes.toString()) as readonly string[]
    return jwts.map((jwt) => ({ ...(readStatement(jwt) ?? damaged(path)), jwt }))
  } catch (cause) {
    throw cause instanceof StaticError ? cause : damaged(path)
  }
}

/** Installs a statement, in place of the one of the same domain. */
export function holdStatement(dataDir: string, jwt: string): void {
  const domain = readStatement(jwt)?.domain
  const others = heldStatements(dataDir).filter((held) => held.domain !== domain)
  const path = join(dataDir, STATEMENTS_FILE)
  sweepLeftovers(path)
  replaceFile(path, `${JSON.stringify([...others.map((held) => held.jwt), jwt], null, 1)}\n`, 0o600)
}

function damaged(path: string): never {
  throw StaticError.of('invalid_request', `${path} is damaged. Delete it and add the statements again.`)
}
