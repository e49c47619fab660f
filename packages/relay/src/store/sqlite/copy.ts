/** Copies the database file of a relay that is not running. */
import { DEFAULT_SETTINGS } from '../../settings.ts'
import { openSqliteStore } from './store.ts'

/** Copies to a new file. Throws `store_locked` if the relay is running: then it must make the copy itself. */
export async function copyDatabase(path: string, target: string): Promise<void> {
  const store = await openSqliteStore({ path, retention: DEFAULT_SETTINGS.retention }, () => {})
  try {
    await store.backup(target)
  } finally {
    await store.close()
  }
}
