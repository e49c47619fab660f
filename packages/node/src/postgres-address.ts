/** The URL of a PostgreSQL database: one or several hosts, of which the writable one is used, and TLS. */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { StaticError } from '@static/protocol'

export interface PostgresHost {
  readonly host: string
  readonly port: number
}

/** The address and parameters of a connection. */
export interface PostgresAddress {
  /** In the order of the URL. */
  readonly hosts: readonly PostgresHost[]
  readonly user: string
  readonly password: string
  readonly database: string
  readonly ssl: ConnectionOptions | false
  /** The parameters in the URL that the caller supports. */
  readonly parameters: ReadonlyMap<string, string>
}

const FORM = /^postgres(?:ql)?:\/\/(?:([^@/?]*)@)?([^/?@]+)\/([^?]+)(\?.*)?$/
const DEFAULT_PORT = 5432
const MAX_HOSTS = 16

/** Whether a database is given as a PostgreSQL URL rather than a path. */
export function isPostgresUrl(database: string): boolean {
  return /^postgres(ql)?:\/\//.test(database)
}

/**
 * Parses `postgres://user:password@host:port,host:port/database`. Connections use TLS 1.3 and are verified
 * (`sslmode=verify-full`, with `sslrootcert=FILE` for a private CA), unless the URL contains `sslmode=disable`: no mode
 * encrypts without verifying. `known` are the parameters that the caller reads itself. Throws `invalid_request`,
 * without the password.
 */
export function parsePostgresUrl(url: string, known: readonly string[] = []): PostgresAddress {
  const [, credentials = '', hosts, database, query = ''] = FORM.exec(url) ?? []
  if (hosts === undefined || database === undefined) {
    throw invalid('The database URL must have the form postgres://user:password@host:port/database.')
  }
  const list = hosts.split(',')
  if (list.length > MAX_HOSTS)
    throw invalid(`The database URL has ${list.length} hosts: at most ${MAX_HOSTS} are used.`)
  const parameters = new URLSearchParams(query)
  const colon = credentials.indexOf(':')
  const [user, password] = colon < 0 ? [credentials, ''] : [credentials.slice(0, colon), credentials.slice(colon + 1)]
  return {
    hosts: list.map(parseHost),
    user: decoded(user),
    password: decoded(password),
    database: decoded(database),
    ssl: parseTls(parameters, known),
    parameters: new Map([...parameters].filter(([name]) => known.includes(name))),
  }
}

/** Whether a server was asked for TLS and does not support it. The password has not been sent to it. */
export function hasNoTls(error: unknown): boolean {
  // The driver's error has no code.
  return error instanceof Error && error.message === 'The server does not support SSL connections'
}

/** The remedy for a server without TLS. */
export const NO_TLS_ADVICE =
  'Turn TLS on there (ssl = on), or, if no one else can read that network, add sslmode=disable to the URL.'

function parseHost(text: string): PostgresHost {
  // A URL hides the default port of its scheme, so the port is read separately.
  const [, host = text, port] = /^(.*?):(\d{1,5})$/.exec(text) ?? []
  const address = URL.parse(`http://${host}`)
  if (!address || Number(port ?? 0) > 65_535) {
    // Not quoted, because it may be part of a password that is not percent-encoded.
    throw invalid('The database URL has an invalid host, or a port above 65535. Percent-encode the password.')
  }
  return {
    host: address.hostname.replace(/^\[|\]$/g, ''),
    port: port === undefined ? DEFAULT_PORT : Number(port),
  }
}

function parseTls(parameters: URLSearchParams, known: readonly string[]): ConnectionOptions | false {
  const mode = parameters.get('sslmode') ?? 'verify-full'
  const authority = parameters.get('sslrootcert')
  if (mode !== 'disable' && mode !== 'verify-full') {
    throw invalid(`sslmode=${mode} is not supported. Use verify-full or disable.`)
  }
  // The driver supports more parameters, some of which would disable verification.
  const all = ['sslmode', 'sslrootcert', ...known]
  const other = [...parameters.keys()].find((name) => !all.includes(name))
  if (other !== undefined) {
    throw invalid(`The parameter ${other} in the database URL is not supported. Use only ${all.join(', ')}.`)
  }
  if (mode === 'disable') return false
  const tls = authority === null ? {} : { ca: readFileSync(authority, 'utf8') }
  return { minVersion: 'TLSv1.3', rejectUnauthorized: true, ...tls }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (error) {
    throw invalid('User, password or database in the database URL is not percent-encoded.', error)
  }
}

function invalid(message: string, cause?: unknown): StaticError {
  return StaticError.of('invalid_request', message, { cause })
}
