/** Settings files outside the agent's directory: the user's credentials and CA certificates. */
import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { makeDirectories, readPrivateFile, replaceFile, sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'

/** Contents of the per-user file. */
export interface Credentials {
  readonly api_key?: string
  readonly api_url?: string
  readonly relay?: string
  /** The name in the relay's certificate, if its endpoint is an IP address. */
  readonly relay_name?: string
  /** Its gRPC port, if the API has announced it: digits. */
  readonly relay_grpc_port?: string
  readonly ca?: string
}

const FIELDS = ['api_key', 'api_url', 'relay', 'relay_name', 'relay_grpc_port', 'ca'] as const
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/**
 * Reads the per-user file; returns an empty object if it does not exist. A path in its `ca` is relative to the file.
 *
 * @throws {StaticError} `store_permissions` if other users can read or write it or own it, `invalid_request` if its
 *   contents are invalid
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
    // Not attached as the cause: the parser quotes the text it fails on, which may be the key.
    throw wrong('is not JSON')
  }
  if (typeof found !== 'object' || found === null || Array.isArray(found)) throw wrong('is not a JSON object')
  const credentials: { -readonly [field in keyof Credentials]: string } = {}
  for (const field of FIELDS) {
    const value: unknown = (found as Record<string, unknown>)[field]
    if (value === undefined || value === null) continue
    if (typeof value !== 'string' || value === '') throw wrong(`is invalid: ${field} must be a non-empty string`)
    credentials[field] = field === 'ca' && !isPem(value) ? resolve(dirname(path), value) : value
  }
  return credentials
}

/**
 * Writes the per-user file with mode 0600, replacing an existing one.
 *
 * @throws {StaticError} `invalid_request` if it cannot be written
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
 * Reads a CA, given as PEM text or as the path of a PEM file.
 *
 * @throws {StaticError} `invalid_request` if it is neither
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

/** The CA of `static up` on this machine. Ignored unless its directory is accessible to this user alone. */
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
  if (blocks.length === 0) throw invalid(`${what} contains no PEM certificate.`)
  try {
    // Only the certificates: a private key in the same file must not be passed on.
    return blocks.map((block) => new X509Certificate(block).toString()).join('')
  } catch (error) {
    throw invalid(`${what} contains a certificate that cannot be parsed.`, error)
  }
}

function invalid(message: string, cause?: unknown): StaticError {
  return StaticError.of('invalid_request', message, { cause })
}
