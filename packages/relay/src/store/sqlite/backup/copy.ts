/** Copies the database file of a relay that is not running. */
import { StaticError } from '@static/protocol'
import { Copier } from './copier.ts'
import { openDatabase, readDeployment } from '../schema.ts'

/**
 * Copies to a new file. Throws `store_locked` if the relay is running: then it must make the copy itself. Does not
 * update rows that are behind the log, because that depends on the relay's settings.
 */
export async function copyDatabase(path: string, target: string): Promise<void> {
  const db = openDatabase(path)
  try {
    readDeployment(db)
    const failed = await new Copier(db, () => {}).copy(target)
    if (failed !== undefined) throw StaticError.of('unavailable', `The backup to ${target} failed (${failed}).`)
  } finally {
    db.close()
  }
}
