/** Connections to PostgreSQL: to the only host of the URL, or to the writable one of several. */
import pg from 'pg'
import { type PostgresAddress, type PostgresHost } from '@static/node/postgres-address'
import { isUnavailable } from './unavailable.ts'

/** Counters and times fit into a JavaScript number; the driver returns strings by default. */
const INT8 = 20
/** The longest time until connections to a former primary that is still up are closed. */
const MAX_LIFE_SECONDS = 60
const READ_ONLY = '25006'

export interface PoolSettings {
  /** Whether a PgBouncer in transaction mode is in front of the database. */
  readonly pooled: boolean
  /** How long a request waits for a connection. */
  readonly waitSeconds: number
}

/** The driver's options, except the host. */
export function poolOptions(
  { user, password, database, ssl }: PostgresAddress,
  { pooled, waitSeconds }: PoolSettings,
): pg.PoolConfig {
  const types = new pg.TypeOverrides()
  types.setTypeParser(INT8, Number)
  // A pooler in transaction mode shares server sessions between clients, so it refuses session settings. The operator
  // sets them for the role instead.
  const ofSession = pooled ? {} : { statement_timeout: 10_000, idle_in_transaction_session_timeout: 30_000 }
  return {
    user,
    password,
    database,
    ssl,
    types,
    max: 10,
    connectionTimeoutMillis: waitSeconds * 1000,
    // If the network drops packets silently, no response ever arrives: the client needs its own timeout.
    query_timeout: 12_000,
    keepAliveInitialDelayMillis: 10_000,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    application_name: 'static-api',
    ...ofSession,
  }
}

/** A pool that follows the primary. */
export class PrimaryPool {
  readonly #pool: pg.Pool
  readonly #hosts: readonly PostgresHost[]
  #current = 0

  constructor(address: PostgresAddress, settings: PoolSettings) {
    this.#hosts = address.hosts
    const many = this.#hosts.length > 1 ? { maxLifetimeSeconds: MAX_LIFE_SECONDS, verify: refuseStandby } : {}
    this.#pool = new pg.Pool({ ...poolOptions(address, settings), ...this.#hosts[0], ...many })
    // A broken connection (the server restarts) emits an error event, which would end the process without a listener:
    // idle connections through the pool, busy ones directly. The current query rejects, and the next one reconnects.
    this.#pool.on('error', () => {})
    this.#pool.on('connect', (client) => client.on('error', () => {}))
  }

  /** For kysely, which may open a separate connection to cancel a query. */
  get options(): object {
    return this.#pool.options
  }

  /** A connection to the primary: tries each host once, starting with the one that last worked. */
  async connect(): Promise<pg.PoolClient> {
    for (let tried = 1; ; tried++) {
      const at = this.#current
      Object.assign(this.#pool.options, this.#hosts[at])
      try {
        return await this.#pool.connect()
      } catch (error) {
        if (tried === this.#hosts.length || !isOfHost(error)) throw error
        // Unless another request has already moved on.
        if (this.#current === at) this.#current = (at + 1) % this.#hosts.length
      }
    }
  }

  /** The rows of a query, each as an array. With a name, the server caches the plan per connection. */
  async rows(query: {
    readonly name?: string
    readonly text: string
    readonly values?: string[]
  }): Promise<unknown[][]> {
    const client = await this.connect()
    try {
      const { rows } = await client.query<unknown[]>({ ...query, rowMode: 'array' })
      client.release()
      return rows
    } catch (error) {
      client.release(true)
      throw error
    }
  }

  async end(): Promise<void> {
    await this.#pool.end()
  }
}

/** Whether another host may work. False if all connections of the pool are busy. */
function isOfHost(error: unknown): boolean {
  return isUnavailable(error) && !(error as Error).message.startsWith('timeout exceeded')
}

function refuseStandby(client: pg.PoolClient, done: (error?: Error) => void): void {
  client
    .query<{ standby: boolean }>('select pg_is_in_recovery() as standby')
    .then(
      ({ rows: [row] }) => done(row?.standby ? Object.assign(new Error('a standby'), { code: READ_ONLY }) : undefined),
      done,
    )
}
