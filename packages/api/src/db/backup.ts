/** Copies the API's SQLite file, whether the API runs or not: readers do not block its writes. */
import { closeSync, openSync } from 'node:fs'
import { backup, DatabaseSync } from 'node:sqlite'
import { openingError } from './unavailable.ts'

/** In one step, from one state: otherwise, writes by the API would restart the copy. */
const ALL_PAGES = 0x7fffffff
const BUSY_MS = 5_000

/** Copies the database to a new file that only its owner can read. Throws the errors of `openStore`. */
export async function copyDatabase(path: string, target: string): Promise<void> {
  let file: DatabaseSync | undefined
  try {
    file = new DatabaseSync(path, { timeout: BUSY_MS })
    closeSync(openSync(target, 'ax', 0o600))
    await backup(file, target, { rate: ALL_PAGES })
  } catch (error) {
    throw openingError(error, path)
  } finally {
    file?.close()
  }
}
