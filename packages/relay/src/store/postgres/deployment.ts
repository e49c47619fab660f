/** Creates the tables of a new deployment, and checks those of an existing one and the key of this node. */
import { randomBytes } from 'node:crypto'
import { RELAY_ID_BYTES, StaticError } from '@static/protocol'
import type { Deployment } from '../../ports.ts'
import { intact, sealed } from '../checksum.ts'
import { deriveKey, fingerprint, makeRelayKey, readRelayKey } from './relay-key.ts'
import { LATER_INDEXES, SCHEMA, TABLES, VERSION } from './schema.ts'
import { type Session, statement } from './session.ts'

const EXISTS = statement(`SELECT to_regclass('${SCHEMA}.deployment') IS NOT NULL`)
const READ = statement(`SELECT relay_id, key_fingerprint, version, checksum FROM ${SCHEMA}.deployment`)
const ADD = statement(`INSERT INTO ${SCHEMA}.deployment VALUES ($1, $2, $3, $4)`)
// Finds the API's table of keys, in case both were given the same database.
const FOREIGN = statement(`SELECT current_user, has_table_privilege(c.oid, 'SELECT')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'api_keys' AND n.nspname = 'public'`)
const MISSING = statement(`SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass('${SCHEMA}.' || name) IS NULL`)
const RIGHTS_MISSING = '42501'
/** A lock timeout, and a deadlock: a retry may find the lock free. */
const LOCKED: ReadonlySet<string | undefined> = new Set(['55P03', '40P01'])
/** Each waits 2 s for the lock, and the transaction of a node that was cut off lives for 5 s. */
const LOCK_TRIES = 5

/** A deployment as stored. */
interface Stored {
  readonly relayId: Uint8Array
  readonly fingerprint: Uint8Array
}

/**
 * Opens the deployment. `keyFile` is created for a new one only. Throws `invalid_request` if this node must not use it.
 */
export async function openDeployment(session: Session, keyFile: string): Promise<Deployment> {
  try {
    await refuseForeign(session)
    const stored = await findOrMake(session, keyFile)
    const key = readRelayKey(keyFile)
    if (!key) {
      throw refused(`${keyFile} does not exist, but the database belongs to a deployment. Copy it from another node.`)
    }
    if (Buffer.compare(fingerprint(key), stored.fingerprint) !== 0) {
      throw refused(`${keyFile} is the key of another deployment. Copy it from a node that uses this database.`)
    }
    await makeLaterIndexes(session)
    const { relayId } = stored
    return { relayId, tokenKey: deriveKey(key, relayId, 'token'), busKey: deriveKey(key, relayId, 'bus') }
  } catch (error) {
    throw lackingRights(error) ?? error
  }
}

/** The error for a role that may not create or use the tables; undefined for other errors. */
export function lackingRights(error: unknown): StaticError | undefined {
  const { code, message } = error as { code?: string; message?: string }
  if (code !== RIGHTS_MISSING) return undefined
  return refused(`The role of the database URL has not all rights it needs (${message}). Grant CREATE on the database.`)
}

/** Throws if the role can read the API's tables. */
export async function refuseForeign(session: Session): Promise<void> {
  const [row] = await session.rows(FOREIGN)
  const [role, mayRead] = (row ?? ['', false]) as [string, boolean]
  if (!mayRead) return
  throw refused(`The role ${role} can read the API's tables. Give the relay a database and a role of its own.`)
}

/** Several nodes may start at once: the first creates the tables. */
async function findOrMake(session: Session, keyFile: string): Promise<Stored> {
  const [row] = await session.rows(EXISTS)
  if (row?.[0] === true) return read(session)
  await session.run('BEGIN')
  try {
    await session.run(`CREATE SCHEMA IF NOT EXISTS ${SCHEMA}`)
    const [now] = await session.rows(EXISTS)
    if (now?.[0] !== true) {
      await session.run(TABLES)
      const key = readRelayKey(keyFile) ?? makeRelayKey(keyFile)
      await session.rows(ADD, sealed([randomBytes(RELAY_ID_BYTES), fingerprint(key), VERSION]))
    }
    await session.run('COMMIT')
  } catch (error) {
    await session.run('ROLLBACK').catch(() => {})
    // Another node was faster.
    const [made] = await session.rows(EXISTS)
    if (made?.[0] !== true) throw error
  }
  return read(session)
}

/**
 * Several nodes may start at once, while others serve: the lock makes them wait for each other, and only here. Each
 * wait is short, because the writes of other nodes queue up behind it; so there are several attempts.
 */
async function makeLaterIndexes(session: Session): Promise<void> {
  const missing = await session.rows(MISSING, [Object.keys(LATER_INDEXES)])
  if (missing.length === 0) return
  const indexes = Object.entries(LATER_INDEXES).map(
    ([name, on]) => `CREATE INDEX IF NOT EXISTS ${name} ON ${SCHEMA}.${on}`,
  )
  const lock = `LOCK TABLE ${SCHEMA}.invites, ${SCHEMA}.joins IN SHARE ROW EXCLUSIVE MODE`
  for (let tries = 1; ; tries++) {
    try {
      await session.run(['BEGIN', lock, ...indexes, 'COMMIT'].join(';'))
      return
    } catch (error) {
      await session.run('ROLLBACK').catch(() => {})
      if (tries === LOCK_TRIES || !LOCKED.has((error as { code?: string }).code)) throw error
    }
  }
}

async function read(session: Session): Promise<Stored> {
  const [row] = await session.rows(READ)
  // A copy stores it last; otherwise it is created with the tables.
  if (!row) throw refused('The copy into this database is not complete. Run `static admin copy` again.')
  const [relayId, print, version] = intact(row, 'deployment') as [Uint8Array, Uint8Array, number]
  if (version > VERSION) {
    throw refused('The tables were created by a newer version of Static. Update Static on this node.')
  }
  return { relayId: new Uint8Array(relayId), fingerprint: print }
}

function refused(message: string): StaticError {
  return StaticError.of('invalid_request', message)
}
