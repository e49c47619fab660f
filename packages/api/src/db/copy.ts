/**
 * Copies the database file of a stopped API into PostgreSQL, in one transaction: nodes see all of it or nothing, and an
 * interrupted copy leaves nothing behind. The database is small, because it holds accounts, not messages.
 */
import { existsSync, statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { type RawBuilder, sql, type Transaction } from 'kysely'
import { digestFile } from '@static/node/digest'
import { StaticError } from '@static/protocol'
import { intact, isCovered } from './checksums.ts'
import { MIGRATIONS } from './migrations.ts'
import type { Schema } from './schema.ts'
import { openEngine } from './store.ts'
import { openingError } from './unavailable.ts'

/**
 * Ordered so that references point back. The windows of rate limits are not copied, because SQLite keeps them in
 * memory.
 */
const TABLES: readonly Exclude<keyof Schema, 'rate_windows'>[] = [
  'accounts',
  'api_keys',
  'sessions',
  'devices',
  'links',
  'audit',
  'deployment',
  'signing_keys',
  'usage_periods',
  'usage_days',
  'leases',
  'idempotency',
  'channel_deletions',
]
/** A fact of the deployment: the SHA-256 of the source file. */
const COPIED_FROM = 'copied_from'
/** Rows in one statement, which takes at most 65,535 values. */
const BATCH = 500
const LOCK_MS = 5000
const LOCK_TIMEOUT = '55P03'
const SQLITE_BUSY = 5

export interface ApiCopyOptions {
  /** The database file of an API that is not running. */
  readonly path: string
  /** `postgres://…`: a database without accounts. */
  readonly url: string
  readonly onProgress?: ((progress: ApiCopyProgress) => void) | undefined
}

export interface ApiCopyProgress {
  readonly table: string
  readonly rows: number
  readonly totalRows: number
}

export interface ApiCopy {
  readonly accounts: number
  readonly rows: number
  /** False if an earlier run had copied everything. */
  readonly isNew: boolean
}

/**
 * Copies. Throws `not_found` if there is no file, `store_locked` if it or the target is in use, `store_corrupt` if it
 * is damaged, `invalid_request` if the target holds anything else, and as `openStore`.
 */
export async function copyToPostgres({ path, url, onProgress }: ApiCopyOptions): Promise<ApiCopy> {
  const { file, fingerprint } = await holdFile(path)
  try {
    const count = (table: string): number => Number(file.prepare(`select count(*) as n from ${table}`).get()?.['n'])
    const accounts = count('accounts')
    const totalRows = TABLES.reduce((sum, table) => sum + count(table), 0)
    const engine = await openEngine(url)
    try {
      const isNew = await engine.db.transaction().execute(async (tx) => {
        await lockTables(tx)
        if (!(await isEmpty(tx, fingerprint))) return false
        let rows = 0
        for (const table of TABLES) {
          for (const batch of batches(file, table)) {
            if (isCovered(table)) for (const row of batch) intact(table, row as never)
            await insert(tx, table, batch)
            rows += batch.length
            onProgress?.({ table, rows, totalRows })
          }
        }
        await tx.insertInto('deployment').values({ name: COPIED_FROM, value: fingerprint }).execute()
        return true
      })
      return { accounts, rows: totalRows, isNew }
    } finally {
      await engine.close()
    }
  } catch (error) {
    throw openingError(error, 'The database')
  } finally {
    file.close()
  }
}

/** Opens the file so that no API can use it meanwhile, and checks its integrity. */
async function holdFile(path: string): Promise<{ readonly file: DatabaseSync; readonly fingerprint: string }> {
  if (!existsSync(path)) throw StaticError.of('not_found', `Database ${path} does not exist.`)
  let file: DatabaseSync | undefined
  try {
    // The write-ahead log of a killed API must be merged into the file before the file is read as a whole.
    lockFile(path).close()
    const before = statSync(path)
    // Before it is locked: closing the file releases the lock of this process.
    const { sha256: fingerprint } = await digestFile(path)
    file = lockFile(path)
    const after = statSync(path)
    if (before.mtimeMs !== after.mtimeMs || before.size !== after.size) throw inUse(path)
    checkFile(file, path)
    return { file, fingerprint }
  } catch (error) {
    file?.close()
    const { errcode } = error as { errcode?: number }
    throw errcode !== undefined && errcode % 256 === SQLITE_BUSY ? inUse(path, error) : openingError(error, path)
  }
}

function lockFile(path: string): DatabaseSync {
  const file = new DatabaseSync(path)
  try {
    file.exec('PRAGMA locking_mode=EXCLUSIVE; BEGIN IMMEDIATE; COMMIT')
    return file
  } catch (error) {
    file.close()
    throw error
  }
}

/** SQLite's own checks find damaged pages and indexes, and missing rows; damaged rows are found during the copy. */
function checkFile(file: DatabaseSync, path: string): void {
  const migrated = file.prepare('select name from kysely_migration order by name').all()
  if (migrated.map((row) => row['name']).join() !== Object.keys(MIGRATIONS).sort().join()) {
    throw StaticError.of(
      'invalid_request',
      `${path} has tables of another version. Run \`static admin migrate --database ${path}\` first.`,
    )
  }
  const [found] = file.prepare('pragma integrity_check(1)').all()
  const problem = found?.['integrity_check']
  const [lost] = file.prepare('pragma foreign_key_check').all()
  if (problem === 'ok' && lost === undefined) return
  const what =
    problem === 'ok' ? `a row of ${String(lost?.['table'])} refers to a row that does not exist` : String(problem)
  throw StaticError.of('store_corrupt', `${path} is damaged (${what}). Restore it from a backup.`)
}

/** Nodes that start now wait until the copy is complete. */
async function lockTables(tx: Transaction<Schema>): Promise<void> {
  await sql`set local lock_timeout = ${sql.raw(String(LOCK_MS))}`.execute(tx)
  try {
    await sql`lock table ${sql.join(TABLES.map((table) => sql.table(table)))}`.execute(tx)
  } catch (error) {
    if ((error as { code?: string }).code !== LOCK_TIMEOUT) throw error
    throw StaticError.of('store_locked', 'Another program uses the database. Stop the API nodes that use it.')
  }
}

/** Whether the target holds nothing; false if it holds this copy. */
async function isEmpty(tx: Transaction<Schema>, fingerprint: string): Promise<boolean> {
  const facts = tx.selectFrom('deployment').select('value').where('name', '=', COPIED_FROM)
  if ((await facts.executeTakeFirst())?.value === fingerprint) return false
  for (const table of TABLES) {
    const { rows } = await sql`select 1 from ${sql.table(table)} limit 1`.execute(tx)
    if (rows.length === 0) continue
    throw StaticError.of(
      'invalid_request',
      `The database already holds an API (table ${table} has rows). Copy into an empty database.`,
    )
  }
  return true
}

type Row = Readonly<Record<string, unknown>>

function* batches(file: DatabaseSync, table: string): Iterable<readonly Row[]> {
  let batch: Row[] = []
  for (const row of file.prepare(`select * from ${table}`).iterate()) {
    batch.push(row)
    if (batch.length < BATCH) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

async function insert(tx: Transaction<Schema>, table: string, rows: readonly Row[]): Promise<void> {
  const names = Object.keys(rows[0] ?? {})
  const columns = sql.join(names.map((name) => sql.ref(name)))
  const values = rows.map((row): RawBuilder<unknown> => sql`(${sql.join(names.map((name) => row[name]))})`)
  await sql`insert into ${sql.table(table)} (${columns}) values ${sql.join(values)}`.execute(tx)
}

function inUse(path: string, cause?: unknown): StaticError {
  return StaticError.of('store_locked', `${path} is in use. Stop the API that uses it.`, { cause })
}
