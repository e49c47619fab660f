/** PostgreSQL (15 or newer), for several API nodes with one database. */
import { readFileSync } from 'node:fs'
import { type Compilable, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { StaticError } from '@static/protocol'
import type { Engine } from './engine.ts'
import type { Schema } from './schema.ts'

/** Counters and times fit into a JavaScript number; the driver returns strings by default. */
const INT8 = 20

/**
 * Opens a database by its URL. `sslmode=verify-full` (with `sslrootcert=FILE` for a private
 * CA) enables TLS 1.3, always with verification: there is no mode that encrypts without it.
 */
export function openPostgres(url: string): Engine {
  const address = new URL(url)
  const mode = address.searchParams.get('sslmode') ?? 'disable'
  const authority = address.searchParams.get('sslrootcert')
  if (mode !== 'disable' && mode !== 'verify-full') {
    throw StaticError.of('invalid_request', `sslmode=${mode} is not supported. Use verify-full or disable.`)
  }
  // The driver supports more parameters, some of which would disable verification.
  const other = [...address.searchParams.keys()].find((name) => name !== 'sslmode' && name !== 'sslrootcert')
  if (other !== undefined)
    throw StaticError.of(
      'invalid_request',
      `The parameter ${other} in the database URL is not supported. Use only sslmode and sslrootcert.`,
    )
  address.searchParams.delete('sslmode')
  address.searchParams.delete('sslrootcert')
  const tls = authority === null ? {} : { ca: readFileSync(authority, 'utf8') }
  const types = new pg.TypeOverrides()
  types.setTypeParser(INT8, Number)
  const pool = new pg.Pool({
    connectionString: address.href,
    ssl: mode === 'verify-full' ? { minVersion: 'TLSv1.3', rejectUnauthorized: true, ...tls } : false,
    max: 10,
    connectionTimeoutMillis: 3_000,
    statement_timeout: 10_000,
    // If the network drops packets silently, no response ever arrives: the client needs its own timeout.
    query_timeout: 12_000,
    idle_in_transaction_session_timeout: 30_000,
    keepAliveInitialDelayMillis: 10_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    application_name: 'static-api',
    types,
  })
  // A broken connection (the server restarts) emits an error event, which would end the process without a listener:
  // idle connections through the pool, busy ones directly. The current query rejects, and the next one reconnects.
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) })
  let prepared = 0
  return {
    db,
    rateWindows: db,
    prepare: <T>(query: Compilable, read: (rows: never) => T) => {
      const { sql: text } = query.compile()
      // With a name, the server caches the plan per connection.
      const name = `static_${++prepared}`
      return async (...values) => {
        const { rows } = await pool.query({ name, text, values: [...values], rowMode: 'array' })
        return read(rows as never)
      }
    },
    ping: async () => void (await pool.query('select 1')),
    close: () => db.destroy(),
  }
}
