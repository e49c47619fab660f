/**
 * SQLite in the process, through `node:sqlite`: the default engine. Write-ahead log and
 * `synchronous=FULL`, so every commit is on disk before the response is sent. Kysely's own SQLite driver
 * prepares each statement again and begins transactions deferred, which fails while another
 * process writes; hence this small driver.
 */
import { chmodSync, closeSync, openSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import {
  type Compilable,
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { StaticError } from '@static/protocol'
import type { Engine } from './engine.ts'
import { RATE_WINDOWS } from './rate-windows.ts'
import type { Db, Schema } from './schema.ts'
import { isDiskFailure } from './unavailable.ts'

/** How long a write waits while another process writes, and how often it retries. */
const BUSY_MS = 5_000
const LOOK_MS = 10
const SQLITE_BUSY = 5
const PROBE_WRITES = 16

/** Opens or creates a database file that only its owner can read. */
export function openSqlite(path: string): Engine {
  // SQLite would create it with the umask; its -wal and -shm files copy the mode of this one.
  closeSync(openSync(path, 'a', 0o600))
  chmodSync(path, 0o600)
  // SQLite's own busy timeout blocks the whole process, which is acceptable only here, before anything else runs.
  const file = new DatabaseSync(path, { timeout: BUSY_MS })
  file.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA busy_timeout=0')
  const driver = new SqliteDriver(file)
  const db = kyselyOver(driver)
  const inMemory = new DatabaseSync(':memory:')
  inMemory.exec(RATE_WINDOWS)
  const rateWindows = kyselyOver(new SqliteDriver(inMemory))
  let reader: SqliteConnection | undefined
  const readOnly = new DatabaseSync(path, { readOnly: true })
  return {
    db,
    rateWindows,
    prepare: <T>(query: Compilable, read: (rows: never) => T) => {
      const { sql } = query.compile()
      return (...values) => {
        // On first use, because the tables do not exist before the migrations.
        reader ??= new SqliteConnection(readOnly)
        try {
          return Promise.resolve(read(reader.rows(sql, values) as never))
        } catch (error) {
          return Promise.reject(error)
        }
      }
    },
    ping: () => driver.ping(),
    async close() {
      readOnly.close()
      await rateWindows.destroy()
      await db.destroy()
    },
  }
}

function kyselyOver(driver: SqliteDriver): Db {
  return new Kysely<Schema>({
    dialect: {
      createAdapter: () => new TransactionalAdapter(),
      createDriver: () => driver,
      createIntrospector: (kysely) => new SqliteIntrospector(kysely),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  })
}

/**
 * SQLite can create tables in a transaction, although kysely's adapter says otherwise. So the migrations run completely
 * or not at all, even if the process is killed, and two processes run them one after the other.
 */
class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}

/** One connection, passed from one user to the next: a transaction keeps it until it ends. */
class SqliteDriver implements Driver {
  readonly #file: DatabaseSync
  readonly #connection: SqliteConnection
  readonly #waiting: ((connection: SqliteConnection) => void)[] = []
  #taken = false

  constructor(file: DatabaseSync) {
    this.#file = file
    this.#connection = new SqliteConnection(file)
  }

  async init(): Promise<void> {}

  acquireConnection(): Promise<DatabaseConnection> {
    if (this.#taken) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#taken = true
    return Promise.resolve(this.#connection)
  }

  async releaseConnection(): Promise<void> {
    const next = this.#waiting.shift()
    if (next) next(this.#connection)
    else this.#taken = false
  }

  async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('commit'))
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    // After a disk error, SQLite has already rolled back, and another ROLLBACK would hide that error.
    if (this.#file.isTransaction) await connection.executeQuery(CompiledQuery.raw('rollback'))
  }

  /** After a failed write, only another write can show that the disk works again. These writes change nothing. */
  async ping(): Promise<void> {
    const connection = await this.acquireConnection()
    try {
      await connection.executeQuery(CompiledQuery.raw('select 1'))
      // Each appends a page to the log. Together they need more space than any request.
      const writes = this.#connection.hasFailed ? PROBE_WRITES : 0
      for (let write = 0; write < writes; write++) {
        await connection.executeQuery(CompiledQuery.raw('pragma user_version = 0'))
      }
    } finally {
      await this.releaseConnection()
    }
  }

  async destroy(): Promise<void> {
    this.#file.close()
  }
}

interface Prepared {
  readonly statement: StatementSync
  /** The names of the result columns; empty if the statement only writes. */
  readonly columns: readonly string[]
}

class SqliteConnection implements DatabaseConnection {
  readonly #file: DatabaseSync
  // Bounded, because the set of queries in this package is fixed.
  readonly #prepared = new Map<string, Prepared>()
  #hasFailed = false

  constructor(file: DatabaseSync) {
    this.#file = file
  }

  /** Whether the disk failed the last write. */
  get hasFailed(): boolean {
    return this.#hasFailed
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    for (let waited = 0; ; waited += LOOK_MS) {
      try {
        return this.#execute<R>(query)
      } catch (error) {
        // Another process is writing. Nothing was done, and this caller keeps the connection while it waits.
        const busy = ((error as { errcode?: number }).errcode ?? 0) % 256 === SQLITE_BUSY
        if (isDiskFailure(error)) this.#hasFailed = true
        if (!busy || waited >= BUSY_MS) throw error
        await wait(LOOK_MS)
      }
    }
  }

  #execute<R>(query: CompiledQuery): QueryResult<R> {
    const { statement, columns } = this.#prepare(query.sql)
    const values = query.parameters as SQLInputValue[]
    if (columns.length > 0) {
      const rows = this.rows(query.sql, values)
      return { rows: rows.map((row) => toObject(columns, row)) as R[] }
    }
    const { changes } = statement.run(...values)
    // A statement in a transaction may not have reached the disk yet, and a rollback does not either.
    if (!this.#file.isTransaction && query.sql !== 'rollback') this.#hasFailed = false
    return { rows: [], numAffectedRows: BigInt(changes) }
  }

  /** The rows of a query, each as an array. */
  rows(sql: string, values: readonly SQLInputValue[]): unknown[][] {
    const { statement } = this.#prepare(sql)
    try {
      return statement.all(...values) as unknown as unknown[][]
    } catch (error) {
      // No valid number is that large, so a row is damaged. Rounded, as PostgreSQL returns it, it does not match its
      // checksum.
      if ((error as { code?: unknown }).code !== 'ERR_OUT_OF_RANGE') throw error
      if (!sql.startsWith('select')) throw StaticError.of('store_corrupt', 'A number in the database is too large.')
      return roundedRows(statement, values)
    }
  }

  #prepare(sql: string): Prepared {
    const known = this.#prepared.get(sql)
    if (known) return known
    const statement = this.#file.prepare(sql)
    // The objects that node:sqlite creates are slow to read, so this gets arrays and creates its own.
    statement.setReturnArrays(true)
    const prepared = { statement, columns: statement.columns().map(({ name }) => name) }
    this.#prepared.set(sql, prepared)
    return prepared
  }

  // oxlint-disable-next-line require-yield -- required by the interface; no query here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('Streaming is not supported.')
  }
}

function roundedRows(statement: StatementSync, values: readonly SQLInputValue[]): unknown[][] {
  statement.setReadBigInts(true)
  try {
    const rows = statement.all(...values) as unknown as unknown[][]
    return rows.map((row) => row.map((value) => (typeof value === 'bigint' ? Number(value) : value)))
  } finally {
    statement.setReadBigInts(false)
  }
}

function toObject(columns: readonly string[], row: readonly unknown[]): Record<string, unknown> {
  const object: Record<string, unknown> = {}
  for (let at = 0; at < columns.length; at++) object[columns[at] as string] = row[at]
  return object
}
