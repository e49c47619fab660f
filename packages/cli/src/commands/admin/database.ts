/** How `static admin` reaches accounts: directly in the database of the API, whether the API runs or not. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import type { Admin, openStore } from '@static/api'
import { isPostgresUrl } from '@static/node/postgres-address'
import { StaticError } from '@static/protocol'
import { DEFAULT_API_URL } from '../../account/account.ts'
import { defaultDataDirectory } from '../../server/data-dir.ts'
import { databaseOf } from '../../server/database.ts'

/** Flags of every command that opens the database. */
export interface DatabaseFlags {
  readonly dataDir: string
  readonly database?: string
  readonly json?: boolean
}

type Store = Awaited<ReturnType<typeof openStore>>

/** The rules for accounts, and the base URL of links. */
export interface AdminAccess {
  readonly admin: Admin
  /** The public address with which the API last started. */
  readonly apiUrl: string
}

export function addDatabaseFlags(command: Command): Command {
  return command
    .option('--data-dir <dir>', 'data directory of `static up`', defaultDataDirectory())
    .option('--database <url>', 'postgres://… or a SQLite file; prefer STATIC_DATABASE')
    .option('--json', 'print JSON')
}

/** Opens the database given by the flags; never creates a file. */
export async function openDatabase(flags: DatabaseFlags): Promise<Store> {
  const database = databaseOf(flags.database) ?? join(flags.dataDir, 'api.sqlite')
  if (!isPostgresUrl(database) && !existsSync(database)) {
    throw StaticError.of('not_found', `Database ${database} does not exist. Pass --data-dir or --database.`)
  }
  const { openStore: open } = await import('@static/api')
  return open(database)
}

/** Opens the database for a task. */
export async function withAdmin<Result>(
  flags: DatabaseFlags,
  work: (access: AdminAccess) => Promise<Result>,
): Promise<Result> {
  const { Admin: AdminRules } = await import('@static/api')
  const store = await openDatabase(flags)
  try {
    return await work({ admin: new AdminRules(store), apiUrl: (await store.publicUrl.read()) ?? DEFAULT_API_URL })
  } finally {
    await store.close()
  }
}
