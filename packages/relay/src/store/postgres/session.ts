/**
 * One connection to PostgreSQL. Statements are sent immediately and answered in order, so that many share a round trip.
 */
import { createHash } from 'node:crypto'
import pg from 'pg'
import { fromHex } from '@static/protocol'
import type { PostgresAddress, PostgresHost } from '@static/node/postgres-address'

/**
 * A prepared statement. Its name is derived from its text, so that two versions behind one pooler never run each
 * other's SQL.
 */
export interface Statement {
  readonly name: string
  readonly text: string
}

/** The columns of a row. */
export type Row = readonly unknown[]

/** Counters and times fit into a JavaScript number; the driver returns strings by default. */
const INT8 = 20
const BYTEA = 17
/** The application name of every relay connection; a node adds an id of its own. */
export const APPLICATION = 'static-relay'
const CONNECT_MS = 3000
const STATEMENT_MS = 10_000
/** If the network drops packets silently, no response ever arrives: the client needs its own timeout. */
const ANSWER_MS = 12_000
const END_MS = 1000
const SHORT_BYTES = 256
/** PostgreSQL's function that waits until a commit is on the standby; its messages name it in every language. */
const SYNC_WAIT = 'SyncRepWaitForLSN'

/**
 * A node that is cut off in the middle of a transaction must not keep its locks: the server ends the session.
 * Statements do not wait long for a lock of another node either; lanes wait even less.
 */
const LIMITS = `SET statement_timeout = ${STATEMENT_MS}; SET lock_timeout = 2000;
  SET idle_in_transaction_session_timeout = 5000; SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2;
  SET tcp_keepalives_count = 3; SET tcp_user_timeout = 10000`

/** Names a statement. */
export function statement(text: string): Statement {
  return { name: `s${createHash('sha256').update(text).digest('hex').slice(0, 24)}`, text }
}

/** An open connection. */
export class Session {
  readonly #client: pg.Client
  #lost = false
  /** Whether something was committed that may not be on the standby. */
  #isUnsure = false

  private constructor(client: pg.Client) {
    this.#client = client
    client.on('error', () => (this.#lost = true))
    client.on('end', () => (this.#lost = true))
    // Someone has cancelled the wait for the standby. PostgreSQL only warns, and reports a commit.
    client.on('notice', ({ routine }) => {
      if (routine !== SYNC_WAIT) return
      this.#isUnsure = true
      this.destroy()
    })
  }

  /** Connects to one host. Throws the driver's error. */
  static async open(
    { user, password, database, ssl }: PostgresAddress,
    host: PostgresHost,
    application: string = APPLICATION,
  ): Promise<Session> {
    const types = new pg.TypeOverrides()
    types.setTypeParser(INT8, Number)
    types.setTypeParser(BYTEA, parseBytes)
    const client = new pg.Client({
      ...host,
      user,
      password,
      database,
      ssl,
      types,
      pipeline: true,
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: ANSWER_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      application_name: application,
    })
    const session = new Session(client)
    await client.connect()
    await session.run(LIMITS)
    return session
  }

  /** The server process id that the other end reports; a pooler makes one up. */
  get serverProcess(): number {
    return (this.#client as pg.Client & { readonly processID: number | null }).processID ?? 0
  }

  /** Whether the connection has ended. */
  get lost(): boolean {
    return this.#lost
  }

  /** Runs a prepared statement. */
  async rows({ name, text }: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return (await this.#answer({ name, text, values: [...values], rowMode: 'array' })).rows
  }

  /** Runs SQL without parameters, once. Returns its command tag. */
  async run(text: string): Promise<string> {
    return (await this.#answer({ text })).command
  }

  async #answer(query: pg.QueryConfig & { readonly rowMode?: 'array' }): Promise<pg.QueryResult<unknown[]>> {
    const result = await this.#client.query<unknown[]>(query as pg.QueryArrayConfig)
    if (this.#isUnsure) throw new Error('the connection was closed: a commit may not be on the standby')
    return result
  }

  async end(): Promise<void> {
    this.#lost = true
    // A server that is cut off never confirms the end.
    const timer = setTimeout(() => this.destroy(), END_MS)
    await this.#client.end().catch(() => {})
    clearTimeout(timer)
  }

  /** Closes it without notifying the server, which does not answer. Pending statements reject. */
  destroy(): void {
    this.#lost = true
    this.#client.connection.stream.destroy()
  }
}

/** Parses the form `\\x0123`. */
function parseBytes(text: string): Uint8Array {
  // Ids, hashes and receipts may be remembered for long: they must not keep the rest of Node's pool in memory.
  if (text.length <= 2 + 2 * SHORT_BYTES) return fromHex(text.slice(2))
  const { buffer, byteOffset, length } = Buffer.from(text.slice(2), 'hex')
  return new Uint8Array(buffer, byteOffset, length)
}
