/**
 * A connection to an encrypted database: SQLCipher 4 pages (AES-256-CBC and HMAC-SHA512 each) under a raw 32-byte key,
 * every commit on disk, one process at a time. A changed or moved page is detected when it is read. A whole file
 * restored from an old copy is not (see open-counter.ts).
 */
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { type ErrorCode, StaticError } from '@static/protocol'
import { diskErrno, diskFailure, isDiskFailure } from './disk-error.ts'
import { privateFileSize } from './private-files.ts'
import { type Database, openDatabase, sqliteCode } from './sqlite.ts'

/** Path of the database in an agent's directory. */
export function databaseFile(directory: string): string {
  return join(directory, 'agent.db')
}

/**
 * Opens or creates a database and locks it for this process.
 *
 * Throws `store_permissions`, `store_locked`, or `store_corrupt` if the key does not decrypt the first page.
 */
export function connect(path: string, key: Uint8Array): Database {
  ensureDatabaseFile(path)
  const database = openDatabase(path)
  try {
    database.pragma(`cipher = 'sqlcipher'`)
    database.pragma('legacy = 4')
    const raw = rawKey(key)
    database.key(raw)
    raw.fill(0)
    // Before the first read, which then takes the lock and keeps it. The WAL index stays in memory, so there is no -shm
    // file.
    database.pragma('locking_mode = EXCLUSIVE')
    database.pragma('user_version')
    if (database.pragma('journal_mode = WAL', { simple: true }) !== 'wal') {
      throw new StaticError('invalid_request', `The file system of ${path} does not support a write-ahead log.`)
    }
    database.pragma('synchronous = FULL')
    database.pragma('secure_delete = ON')
    database.pragma('temp_store = MEMORY')
    database.pragma('foreign_keys = ON')
    database.pragma('trusted_schema = OFF')
    return database
  } catch (error) {
    database.close()
    throw storeError(error, path)
  }
}

/** Converts an error from SQLite or the disk to the store's error. Other errors are returned unchanged. */
export function storeError(error: unknown, path: string): unknown {
  const code = sqliteCode(error) ?? diskErrno(error)
  if (code === undefined) return error
  const [kind, message] = explain(code, path)
  return new StaticError(kind, message, { cause: error })
}

function explain(code: string, path: string): [ErrorCode, string] {
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) {
    return ['store_locked', `${path} is locked by another process. Stop it, or choose another directory.`]
  }
  if (/^SQLITE_(NOTADB|CORRUPT|IOERR_SHORT_READ)/.test(code)) {
    return ['store_corrupt', `${path} is damaged, or keys.json belongs to another database.`]
  }
  // Other errors are mistakes in a statement.
  if (isDiskFailure(code)) return ['store_failed', diskFailure(code, path)]
  return ['internal_error', `Reading or writing ${path} failed (${code}).`]
}

function ensureDatabaseFile(path: string): void {
  // The log, and a journal left by a crash at the first start, inherit the mode of the database.
  for (const file of [`${path}-wal`, `${path}-journal`]) privateFileSize(file)
  // SQLite would create it with the mode that the umask allows.
  if (privateFileSize(path) === undefined) closeSync(openSync(path, 'a', 0o600))
  privateFileSize(path)
}

/** `x'…'` marks a raw key. Not built as a string, because strings cannot be wiped. */
function rawKey(key: Uint8Array): Buffer {
  const digits = '0123456789abcdef'
  const text = Buffer.from(`x'${'0'.repeat(2 * key.length)}'`, 'latin1')
  key.forEach((byte, at) => {
    text[2 + 2 * at] = digits.charCodeAt(byte >> 4)
    text[3 + 2 * at] = digits.charCodeAt(byte & 15)
  })
  return text
}
