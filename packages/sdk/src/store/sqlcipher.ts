/**
 * The agent's database on disk, fully encrypted (connection.ts) under a key stored in slots (keys/slots.ts). The
 * directory contains `agent.db`, its write-ahead log, the ring in front of it (ring/file.ts), `keys.json`, by default
 * the key file, and the open counter.
 *
 * It protects data at rest, not against programs of the same user while the agent runs. With the key file in the same
 * directory, it only protects against losing a part of that directory.
 */
import type { KeyObject } from 'node:crypto'
import { join, resolve } from 'node:path'
import { sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { same } from '../platform/bytes.ts'
import type { AgentStore, IdentityRecord } from '../ports/index.ts'
import { connect, databaseFile, storeError } from './connection.ts'
import { openDatabaseKey } from './keys/slots.ts'
import type { KeySource } from './keys/sources.ts'
import { checkCounters, type CounterInDatabase, OpenCounter, readCounterFile } from './open-counter.ts'
import { ensurePrivateDirectory, ignoreInGit } from './private-files.ts'
import { RING_BYTES, RingFile } from './ring/file.ts'
import { noteRing, type NotedRing, notedRing, type RingContent } from './ring/replay.ts'
import { ringSecret } from './ring/record.ts'
import { RingStore } from './ring/ring-store.ts'
import { createRing, openRingDisk, readRingFile, ringFile } from './ring-disk.ts'
import { createSchema, hasSchema } from './schema.ts'
import { readIdentity } from './snapshot.ts'
import { openRows } from './rows/sql-rows.ts'
import { SqlTable } from './rows/sql-table.ts'
import type { Database } from './sqlite.ts'
import { IDENTITY } from './tables/agent-tables.ts'

/** Options for opening an agent's database. */
export interface AgentStoreOptions {
  /** Created if it does not exist. */
  readonly directory: string
  /** The name that the application gave this agent. */
  readonly identity: Uint8Array
  /** Creates the keys of a new agent; called only at the first start. */
  readonly makeIdentity: () => Omit<IdentityRecord, 'identity'>
  /** The key that opens the database. A new database is created with it. */
  readonly key?: KeySource
  /** If it is outside the directory, even restoring the whole directory is detected. */
  readonly counterFile?: string
  /**
   * Opens a database restored from an old copy. Use it only to leave its channels: sending from it would use keys
   * twice.
   */
  readonly acceptRolledBack?: boolean
  /** Size of a new agent's ring. */
  readonly ringBytes?: number
}

/**
 * Opens the database of an agent, or creates it.
 *
 * Throws `store_permissions`, `store_locked`, `store_key_wrong`, `store_corrupt`, `store_rolled_back`, `store_failed`,
 * and `invalid_request` if it belongs to another identity or another version of Static.
 */
export async function openAgentStore(options: AgentStoreOptions): Promise<AgentStore> {
  const directory = resolve(options.directory)
  const path = databaseFile(directory)
  const ringPath = ringFile(directory)
  const counterFile = resolve(options.counterFile ?? join(directory, 'agent.opens'))
  const key = await openDirectory(directory, options.key ?? { type: 'file' })
  let database: Database
  let secret: KeyObject
  let ring: RingFile | undefined
  try {
    database = connect(path, key)
    secret = ringSecret(key)
  } catch (error) {
    throw storeError(error, path)
  } finally {
    key.fill(0)
  }
  try {
    const counted = readCounterFile(counterFile)
    const complete = hasSchema(database)
    const opens = counterInDatabase(database)
    if (options.acceptRolledBack !== true) checkCounters(complete ? opens.read() : 0, counted, counterFile)
    if (!complete) create(database, options, createRing(ringPath, secret, options.ringBytes ?? RING_BYTES))
    checkSameIdentity(readIdentity(openRows(database)).identity, options.identity, directory)
    const content = ringContent(database, ringPath, secret, options)
    ring = new RingFile(openRingDisk(ringPath), secret, content)
    const explain = (error: unknown): unknown => storeError(error, path)
    const store = new RingStore(database, explain, new OpenCounter(opens, counterFile, counted), ring)
    store.begin(content.following)
    for (const file of [counterFile, ringPath]) sweepLeftovers(file)
    return store
  } catch (error) {
    ring?.close()
    database.close()
    throw storeError(error, path)
  }
}

/** Creates the directory if necessary, and reads the key of its database. */
async function openDirectory(directory: string, key: KeySource): Promise<Uint8Array> {
  try {
    ensurePrivateDirectory(directory)
    ignoreInGit(directory)
    return await openDatabaseKey(directory, key)
  } catch (error) {
    throw storeError(error, directory)
  }
}

/** Creates tables and identity in one transaction: a crash leaves both or an empty database. */
function create(database: Database, options: AgentStoreOptions, ring: NotedRing): void {
  const { publicKey, secretKey } = options.makeIdentity()
  // An error in between closes the database, which rolls the transaction back.
  database.exec('BEGIN IMMEDIATE')
  createSchema(database)
  new SqlTable(database, IDENTITY, undefined).put([1, options.identity, publicKey, secretKey])
  noteRing(database, ring)
  database.exec('COMMIT')
}

/** The ring that belongs to the database, or a new one if it does not match and the caller accepts that. */
function ringContent(
  database: Database,
  path: string,
  secret: KeyObject,
  { acceptRolledBack, ringBytes }: AgentStoreOptions,
): RingContent {
  try {
    return readRingFile(path, secret, notedRing(database))
  } catch (error) {
    const isRolledBack = error instanceof StaticError && /^store_(rolled_back|corrupt)$/.test(error.code)
    if (acceptRolledBack !== true || !isRolledBack) throw error
    const ring = createRing(path, secret, ringBytes ?? RING_BYTES)
    noteRing(database, ring)
    return readRingFile(path, secret, ring)
  }
}

function checkSameIdentity(stored: Uint8Array, given: Uint8Array, directory: string): void {
  if (same(stored, given)) return
  const name = JSON.stringify(Buffer.from(stored).toString())
  throw new StaticError(
    'invalid_request',
    `${directory} belongs to the agent ${name}. Use that identity, or choose another directory.`,
  )
}

function counterInDatabase(database: Database): CounterInDatabase {
  return {
    read: () => Number(database.prepare('SELECT value FROM opens').pluck().get()),
    write: (value) => {
      database.prepare('UPDATE opens SET value = ?').run(value)
    },
  }
}
