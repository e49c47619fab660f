/** The URL of the relay's PostgreSQL: one or several hosts, of which the writable one is used, and TLS. */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { StaticError } from '@static/protocol'

/** Where to connect to, and how. */
export interface Address {
  /** In the order of the URL. */
  readonly hosts: readonly { readonly host: string; readonly port: number }[]
  readonly user: string
  readonly password: string
  readonly database: string
  readonly ssl: ConnectionOptions | false
}

const FORM = /^postgres(?:ql)?:\/\/(?:([^@/?]*)@)?([^/?@]+)\/([^?]+)(\?.*)?$/
const DEFAULT_PORT = '5432'

/** Whether a database is named by a PostgreSQL URL, not by a path. */
export function isPostgresUrl(database: string): boolean {
  return /^postgres(ql)?:\/\//.test(database)
}

/**
 * Parses `postgres://user:password@host:port,host:port/database`. `sslmode=verify-full` (with `sslrootcert=FILE` for a
 * private CA) enables TLS 1.3, always with verification. Throws `invalid_request`, without the password.
 */
export function parseAddress(url: string): Address {
  const [, credentials = '', hosts, database, query = ''] = FORM.exec(url) ?? []
  if (hosts === undefined || database === undefined) {
    throw invalid('The database URL must have the form postgres://user:password@host:port/database.')
  }
  const [user = '', password = ''] = credentials.split(':')
  return {
    hosts: hosts.split(',').map(parseHost),
    user: decodeURIComponent(user),
    password: decodeURIComponent(password),
    database: decodeURIComponent(database),
    ssl: parseTls(new URLSearchParams(query)),
  }
}

function parseHost(text: string): { readonly host: string; readonly port: number } {
  try {
    const { hostname, port } = new URL(`http://${text}`)
    // A URL hides the default port of its scheme.
    const own = port === '' ? (text.endsWith(':80') ? '80' : DEFAULT_PORT) : port
    return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(own) }
  } catch (error) {
    throw invalid(`${text} in the database URL is not a host with a port.`, error)
  }
}

function parseTls(parameters: URLSearchParams): ConnectionOptions | false {
  const mode = parameters.get('sslmode') ?? 'disable'
  const authority = parameters.get('sslrootcert')
  if (mode !== 'disable' && mode !== 'verify-full') {
    throw invalid(`sslmode=${mode} is not supported. Use verify-full or disable.`)
  }
  const other = [...parameters.keys()].find((name) => name !== 'sslmode' && name !== 'sslrootcert')
  if (other !== undefined) {
    throw invalid(`The parameter ${other} in the database URL is not supported. Use only sslmode and sslrootcert.`)
  }
  if (mode === 'disable') return false
  const tls = authority === null ? {} : { ca: readFileSync(authority, 'utf8') }
  return { minVersion: 'TLSv1.3', rejectUnauthorized: true, ...tls }
}

function invalid(message: string, cause?: unknown): StaticError {
  return StaticError.of('invalid_request', message, { cause })
}
