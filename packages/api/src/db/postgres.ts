/** PostgreSQL (15 or newer), for several API nodes with one database. */
import { createHash } from 'node:crypto'
import { type Compilable, Kysely, PostgresDialect } from 'kysely'
import { StaticError } from '@static/protocol'
import { parsePostgresUrl } from '@static/node/postgres-address'
import type { Engine } from './engine.ts'
import { PrimaryPool } from './postgres-pool.ts'
import type { Schema } from './schema.ts'

/** Whether the database is behind a PgBouncer in transaction mode. */
const POOLED = 'pgbouncer'

/**
 * Opens a database by its URL (`parsePostgresUrl`); `pgbouncer=true` if a PgBouncer in transaction mode is in front of
 * it.
 */
export function openPostgres(url: string, waitSeconds: number): Engine {
  const address = parsePostgresUrl(url, [POOLED])
  const value = address.parameters.get(POOLED) ?? 'false'
  if (value !== 'true' && value !== 'false') {
    throw StaticError.of(
      'invalid_request',
      `${POOLED}=${value} in the database URL is not supported. Use true or false.`,
    )
  }
  const pooled = value === 'true'
  const pool = new PrimaryPool(address, { pooled, waitSeconds })
  const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) })
  return {
    db,
    rateWindows: db,
    prepare: <T>(query: Compilable, read: (rows: never) => T) => {
      const { sql: text } = query.compile()
      // A statement is prepared on one server connection, and a pooler may run the next query on another.
      const named = pooled ? {} : { name: statementName(text) }
      return async (...values) => read((await pool.rows({ ...named, text, values: [...values] })) as never)
    },
    ping: async () => void (await pool.rows({ text: 'select 1' })),
    close: () => db.destroy(),
  }
}

/**
 * The name of a prepared statement, derived from its text. Two versions of the API behind one pooler that shares
 * prepared statements must not run each other's.
 */
export function statementName(text: string): string {
  return `static_${createHash('sha256').update(text).digest('hex').slice(0, 24)}`
}
