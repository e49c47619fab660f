/** Distinguishes an unavailable database from a wrong query, and explains why a database cannot be opened. */
import { StaticError } from '@static/protocol'
import { fullDisk } from '@static/node/disk-space'
import { hasNoTls, NO_TLS_ADVICE } from '@static/node/postgres-address'
import { MIGRATIONS } from './migrations.ts'

const CONNECTION_CODES = new Set([
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
])
const SQLITE_BUSY = 5
const SQLITE_CORRUPT = 11
const SQLITE_NOTADB = 26
/** Read-only, I/O error, full, cannot open: the disk, not the query. */
const SQLITE_DISK = [8, 10, 13, 14]
const UNTRUSTED = /CERT|UNABLE_TO_VERIFY|SELF_SIGNED/

/** Whether an error means that the database is temporarily unavailable, not that a query is wrong. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof AggregateError) return error.errors.some(isUnavailable)
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  if (typeof errcode === 'number') return (errcode & 0xff) === SQLITE_BUSY || isDiskFailure(error)
  if (typeof code === 'string') {
    // 08: connection; 28 and 3D: access refused; 53: insufficient resources; 57P: stopping or starting; 40: retry;
    // 57014 and 55P03: timeout; 25006: a write to a standby.
    return CONNECTION_CODES.has(code) || /^(08|28|3D|53|57P|57014|55P03|25006|40)/.test(code)
  }
  const lost = /^(Connection terminated|timeout e|Query read timeout|Client has encountered a connection error)/
  return lost.test(error.message) || hasNoTls(error)
}

/** Whether SQLite could not read or write its file: the disk is full, failing or read-only. */
export function isDiskFailure(error: unknown): boolean {
  const { errcode } = error as { errcode?: unknown }
  return typeof errcode === 'number' && SQLITE_DISK.includes(errcode & 0xff)
}

/** The error for a database that could not be opened. */
export function openingError(error: unknown, name: string): StaticError {
  if (error instanceof StaticError) return error
  const { code, errcode, message } = error as { code?: unknown; errcode?: unknown; message?: unknown }
  if (typeof errcode === 'number' && [SQLITE_CORRUPT, SQLITE_NOTADB].includes(errcode & 0xff)) {
    return StaticError.of(
      'store_corrupt',
      `${name} is not a database, or is damaged. Restore a backup, or move the file away.`,
      {
        cause: error,
      },
    )
  }
  const [, unknown] = /previously executed migration (\S+) is missing/.exec(String(message)) ?? []
  if (unknown !== undefined) return otherVersion(unknown, name, error)
  if (typeof message === 'string' && message.startsWith('unsupported startup parameter')) {
    return StaticError.of('invalid_request', `${name} is behind a PgBouncer. Add pgbouncer=true to its URL.`, {
      cause: error,
    })
  }
  const full = isDiskFailure(error) || code === 'ENOSPC' ? fullDisk(name) : undefined
  if (full !== undefined) {
    return StaticError.of('unavailable', `${full} Free some space, then start again.`, { cause: error })
  }
  if (hasNoTls(error)) {
    return StaticError.of('unavailable', `${name} does not offer TLS. ${NO_TLS_ADVICE}`, { cause: error })
  }
  if (typeof code === 'string' && UNTRUSTED.test(code)) {
    return StaticError.of('unavailable', `${name} presented an untrusted certificate. Check sslrootcert.`, {
      cause: error,
    })
  }
  if (typeof code === 'string' && /^(28|3D)/.test(code)) {
    return StaticError.of('unavailable', `${name} rejected the user, password or database name.`, { cause: error })
  }
  if (code === 'ENOENT' || code === 'EACCES' || code === 'ERR_INVALID_URL') {
    return StaticError.of('invalid_request', `${name} cannot be opened. Check its path or URL.`, { cause: error })
  }
  if (isUnavailable(error)) return StaticError.of('unavailable', `${name} cannot be reached.`, { cause: error })
  return StaticError.of('internal_error', `${name} could not be opened (${String(message)}).`, { cause: error })
}

/** Migrations are numbered: one that this version does not know is either newer or was never released. */
function otherVersion(migration: string, name: string, cause: unknown): StaticError {
  const isNewer = migration > (Object.keys(MIGRATIONS).sort().at(-1) ?? '')
  const [age, advice] = isNewer
    ? ['newer version', 'Start that version, or restore a backup.']
    : ['version before the first release', 'Restore a backup, or move it away.']
  return StaticError.of('invalid_request', `${name} has tables of a ${age} (${migration}). ${advice}`, { cause })
}
