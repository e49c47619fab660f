/** Files outside the agent's directory that settings come from: the user's credentials, and authorities. */
import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { makeDirectories, readPrivateFile, replaceFile, sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'

/** What the per-user file may hold. */
export interface Credentials {
  readonly api_key?: string
  readonly api_url?: string
  readonly relay?: string
  readonly ca?: string
}

const FIELDS = ['api_key', 'api_url', 'relay', 'ca'] as const
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/**
 * Reads the per-user file; empty when there is none. A path in its `ca` is relative to the file.
 *
 * @throws {StaticError} `store_permissions` when others can read or write it or it is another user's, `invalid_request`
 *   when it does not hold what it should
 */
export function readCredentials(path: string): Credentials {
  const wrong = (why: string, cause?: unknown): StaticError => invalid(`${path} ${why}.`, cause)
  let bytes: Buffer | undefined
  try {
    bytes = readPrivateFile(path)
  } catch (error) {
    throw error instanceof StaticError ? error : wrong('cannot be read', error)
  }
  if (bytes === undefined) return {}
  let found: unknown
  try {
    found = JSON.parse(bytes.toString())
  } catch {
    // Not as the cause: the parser's words quote what it stumbled over, which may be the key.
    throw wrong('is not JSON')
  }
  if (typeof found !== 'object' || found === null || Array.isArray(found)) throw wrong('is not a JSON object')
  const credentials: { -readonly [field in keyof Credentials]: string } = {}
  for (const field of FIELDS) {
    const value: unknown = (found as Record<string, unknown>)[field]
    if (value === undefined || value === null) continue
    if (typeof value !== 'string' || value === '') throw wrong(`must hold a text in ${field}`)
    credentials[field] = field === 'ca' && !isPem(value) ? resolve(dirname(path), value) : value
  }
  return credentials
}

/**
 * Writes the per-user file, 0600, in the place of the one that may be there.
 *
 * @throws {StaticError} `invalid_request` when it cannot be written
 */
export function writeCredentials(path: string, credentials: Credentials): void {
  const fields = Object.fromEntries(
    FIELDS.flatMap((field) => (credentials[field] ? [[field, credentials[field]]] : [])),
  )
  try {
    makeDirectories(dirname(path))
    sweepLeftovers(path)
    replaceFile(path, `${JSON.stringify(fields, null, 2)}\n`, 0o600)
  } catch (cause) {
    throw invalid(`${path} cannot be written.`, cause)
  }
}

/**
 * An authority, given as PEM text or as the path of a file with it.
 *
 * @throws {StaticError} `invalid_request` when it is neither
 */
export function readAuthority(given: string): string {
  if (isPem(given)) return checkPem(given, 'The CA')
  let text: string
  try {
    text = readFileSync(given, 'utf8')
  } catch (error) {
    throw invalid(`The CA file ${given} cannot be read.`, error)
  }
  return checkPem(text, `The CA file ${given}`)
}

/** The authority of `static up` on this machine; only from a directory that nobody else can write to, or it is none. */
export function localAuthority(directory: string): string | undefined {
  const path = join(directory, 'ca.pem')
  try {
    const { uid, mode } = statSync(directory)
    if (uid !== process.geteuid?.() || (mode & 0o077) !== 0 || !statSync(path).isFile()) return undefined
  } catch {
    return undefined
  }
  return readAuthority(path)
}

function isPem(text: string): boolean {
  return text.includes('-----BEGIN ')
}

function checkPem(text: string, what: string): string {
  const blocks = text.match(CERTIFICATE) ?? []
  if (blocks.length === 0) throw invalid(`${what} holds no certificate in PEM.`)
  try {
    // Only these: a private key in the same file has no business on the way to a server.
    return blocks.map((block) => new X509Certificate(block).toString()).join('')
  } catch (error) {
    throw invalid(`${what} holds a certificate that cannot be read.`, error)
  }
}

function invalid(message: string, cause?: unknown): StaticError {
  return StaticError.of('invalid_request', message, { cause })
}
