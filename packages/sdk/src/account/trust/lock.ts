/**
 * Changes of files by one process at a time. The lock is that of an empty database: the kernel gives it back when a
 * process dies, so that none is left behind.
 */
import { closeSync, openSync } from 'node:fs'
import { storeError } from '../../store/connection.ts'
import { openDatabase } from '../../store/sqlite.ts'

/** A change takes milliseconds. */
const PATIENCE_MS = 2000

/**
 * Runs a change while no other process runs one under the same path.
 *
 * @throws {StaticError} `store_locked` if another one holds the lock for two seconds
 */
export function alone(path: string, change: () => void): void {
  // SQLite would create it with the mode that the umask allows.
  closeSync(openSync(path, 'a', 0o600))
  const lock = openDatabase(path)
  try {
    take(lock, path)
    change()
  } finally {
    lock.close()
  }
}

function take(lock: ReturnType<typeof openDatabase>, path: string): void {
  try {
    lock.pragma(`busy_timeout = ${PATIENCE_MS}`)
    // No journal beside it: that would look like a change of the directory.
    lock.pragma('journal_mode = MEMORY')
    lock.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    throw storeError(error, path)
  }
}
