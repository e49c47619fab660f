/** Connects to the host that accepts writes, and refuses servers that could lose what they have acknowledged. */
import { setTimeout as wait } from 'node:timers/promises'
import { StaticError } from '@static/protocol'
import type { Durability } from '../../ports.ts'
import { hasNoTls, NO_TLS_ADVICE, type PostgresAddress, type PostgresHost } from '@static/node/postgres-address'
import { SCHEMA } from './schema.ts'
import { APPLICATION, Session, statement } from './session.ts'

const STATE = statement(`SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
  current_setting('fsync'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
  (extract(epoch FROM clock_timestamp()) * 1000)::float8,
  (SELECT count(DISTINCT application_name)::int FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE '${APPLICATION} %'), pg_backend_pid()`)
const MIN_VERSION = 150_000
/** How long a host has to respond before the next one is also dialed. */
const HEAD_START_MS = 500

/**
 * Every statement finds its rows through an index and is planned once per connection. Otherwise the planner would keep
 * the full table scan that it chose while the table was new and empty.
 */
const PLANS = `SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off;
  SET enable_mergejoin = off; SET jit = off`

/** A connection, and the state of its server. */
export interface Connected {
  readonly session: Session
  readonly durability: Durability
  /** How far its clock is ahead of ours. */
  readonly clockOffsetMs: number
  /** How many nodes are connected to it, including this one. */
  readonly nodes: number
}

/**
 * Tries the hosts in order; a silent one does not delay the next. Throws `unavailable` if none can be reached or all
 * are standbys, and `invalid_request` if the server must not be used.
 */
export async function connect(address: PostgresAddress, application?: string): Promise<Connected> {
  const failures: unknown[] = []
  const dials: Promise<Connected | undefined>[] = []
  let chosen: Connected | undefined
  try {
    for (const host of address.hosts) {
      const dial = connectTo(address, host, application).catch((error: unknown) => {
        if (StaticError.from(error).code === 'invalid_request') throw error
        failures.push(error)
        return undefined
      })
      dials.push(dial)
      chosen = await Promise.race([firstOf(dials), wait(HEAD_START_MS, undefined, { ref: false })])
      if (chosen) return chosen
    }
    chosen = await firstOf(dials)
    if (chosen) return chosen
  } finally {
    const close = (late: Connected | undefined): void => void (late !== chosen && late?.session.end())
    for (const dial of dials) dial.then(close, () => {})
  }
  const names = address.hosts.map(({ host, port }) => `${host}:${port}`).join(', ')
  if (failures.length === 0) throw unavailable(`PostgreSQL at ${names} is a standby. Add the primary to the URL.`)
  const failure = failures.at(-1)
  if (hasNoTls(failure)) throw unavailable(`PostgreSQL at ${names} does not offer TLS. ${NO_TLS_ADVICE}`, failure)
  throw unavailable(`PostgreSQL at ${names} cannot be reached (${messageOf(failure)}).`, failure)
}

/** The first that accepts writes; undefined once none does. */
function firstOf(dials: readonly Promise<Connected | undefined>[]): Promise<Connected | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Connected | undefined>()
  let left = dials.length
  for (const dial of dials) {
    dial.then((connected) => {
      left -= 1
      if (connected || left === 0) resolve(connected)
    }, reject)
  }
  return promise
}

type StateRow = [
  version: number,
  isStandby: boolean,
  fsync: string,
  commit: string,
  standbys: string,
  time: number,
  nodes: number,
  process: number,
]

/** Queries the state of a server. */
export async function examine(session: Session): Promise<Omit<Connected, 'session'> & { readonly isStandby: boolean }> {
  const before = Date.now()
  const [row] = await session.rows(STATE)
  const after = Date.now()
  const [version, isStandby, fsync, commit, standbys, time, nodes, process] = row as StateRow
  if (version < MIN_VERSION) throw refused(`PostgreSQL ${Math.floor(version / 10_000)} is too old. Use 15 or newer.`)
  // With a pooler, others would share the session's settings, prepared statements and locks.
  if (process !== session.serverProcess) {
    throw refused('A pooler such as PgBouncer is in front of PostgreSQL. Connect the relay to PostgreSQL directly.')
  }
  if (fsync !== 'on') throw refused('PostgreSQL runs with fsync=off and would lose messages. Turn it on.')
  if (commit !== 'on' && commit !== 'remote_apply') {
    throw refused(`PostgreSQL has synchronous_commit=${commit} and would lose messages. Set it to on.`)
  }
  const durability = standbys.trim() === '' ? 'fsync' : 'fsync+standby'
  // Its clock was read at some moment in between. If ours can agree, assume so: a late answer must not make it look
  // wrong.
  const clockOffsetMs = Math.round(Math.max(time - after, Math.min(time - before, 0)))
  return { durability, isStandby, clockOffsetMs, nodes }
}

async function connectTo(
  address: PostgresAddress,
  host: PostgresHost,
  application: string | undefined,
): Promise<Connected | undefined> {
  const session = await Session.open(address, host, application)
  try {
    const { isStandby, ...state } = await examine(session)
    if (isStandby) {
      await session.end()
      return undefined
    }
    // Pinned: a configuration reload must not weaken a session that was examined.
    const pin = `SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false)`
    await session.run(`SET search_path = ${SCHEMA}; ${PLANS}; ${pin}`)
    return { session, ...state }
  } catch (error) {
    await session.end()
    throw error
  }
}

function refused(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}

function unavailable(message: string, cause?: unknown): StaticError {
  return StaticError.of('unavailable', message, { cause })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
