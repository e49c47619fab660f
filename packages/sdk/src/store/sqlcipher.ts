/**
 * The agent's database on disk, fully encrypted (connection.ts) under a key stored in slots (key-slots.ts). The
 * directory contains `agent.db`, its write-ahead log, `keys.json`, by default the key file, and the open counter.
 *
 * It protects data at rest, not against programs of the same user while the agent runs. With the key file in the same
 * directory, it only protects against losing a part of that directory.
 */
import { join, resolve } from 'node:path'
import { sweepLeftovers } from '@static/node/files'
import { StaticError } from '@static/protocol'
import type { AgentStore, Change, ChannelId, IdentityRecord, InboxRecord, PoisonRecord, Snapshot } from '../ports.ts'
import { Bodies, deleteLeftovers } from './bodies.ts'
import { prepareChanges } from './changes.ts'
import { connect, databaseFile, storeError } from './connection.ts'
import { openDatabaseKey } from './key-slots.ts'
import type { KeySource } from './key-sources.ts'
import { checkCounters, type CounterInDatabase, OpenCounter, readCounterFile } from './open-counter.ts'
import { ensurePrivateDirectory, ignoreInGit } from './private-files.ts'
import { createSchema, hasSchema, upgradeSchema } from './schema.ts'
import { prepareInbox, preparePoison, readIdentity, readSnapshot } from './snapshot.ts'
import { openRows } from './sql-rows.ts'
import type { Database, Statement } from './sqlite.ts'
import type { RowsOf } from './table.ts'
import { IDENTITY } from './tables/agent.ts'

/** Options for opening an agent's database. */
export interface AgentStoreOptions {
  /** Created if it does not exist. */
  readonly directory: string
  /** The name that the application gave this agent. */
  readonly identity: Uint8Array
  /** Creates the keys of a new agent; called only at the first start. */
  readonly makeIdentity: () => Omit<IdentityRecord, 'identity'>
  /** What opens the database. A new database is created with it. */
  readonly key?: KeySource
  /** If it is outside the directory, restoring the whole directory is detected, too. */
  readonly counterFile?: string
  /**
   * Opens a database that was restored from an old copy. Use it only to leave its channels: sending from it would use
   * keys a second time.
   */
  readonly acceptRolledBack?: boolean
}

/**
 * Opens the database of an agent, or creates it.
 *
 * Throws `store_permissions`, `store_locked`, `store_key_wrong`, `store_corrupt`, `store_rolled_back`, and
 * `invalid_request` if it belongs to another identity or to a newer version of Static.
 */
export async function openAgentStore(options: AgentStoreOptions): Promise<AgentStore> {
  const directory = resolve(options.directory)
  ensurePrivateDirectory(directory)
  ignoreInGit(directory)
  const path = databaseFile(directory)
  const counterFile = resolve(options.counterFile ?? join(directory, 'agent.opens'))
  const key = await openDatabaseKey(directory, options.key ?? { type: 'file' })
  let database: Database
  try {
    database = connect(path, key)
  } finally {
    key.fill(0)
  }
  try {
    const counted = readCounterFile(counterFile)
    const complete = hasSchema(database)
    const opens = counterInDatabase(database)
    if (options.acceptRolledBack !== true) checkCounters(complete ? opens.read() : 0, counted, counterFile)
    if (!complete) create(database, options)
    checkIdentity(readIdentity(openRows(database)).identity, options.identity, directory)
    upgradeSchema(database)
    deleteLeftovers(database)
    truncateLog(database)
    const counter = new OpenCounter(opens, counterFile, counted)
    counter.advance()
    sweepLeftovers(counterFile)
    return new SqlcipherStore(database, path, counter)
  } catch (error) {
    database.close()
    throw storeError(error, path)
  }
}

/** An open database. */
class SqlcipherStore implements AgentStore {
  readonly #database: Database
  readonly #path: string
  readonly #counter: OpenCounter
  readonly #bodies: Bodies
  readonly #rows: RowsOf
  readonly #apply: (change: Change) => void
  readonly #inbox: AgentStore['inbox']
  readonly #poison: AgentStore['poison']
  readonly #begin: Statement
  readonly #commit: Statement
  readonly #rollback: Statement
  /** Whether the log contains something for a checkpoint to move. */
  #written = false

  constructor(database: Database, path: string, counter: OpenCounter) {
    this.#database = database
    this.#path = path
    this.#counter = counter
    this.#bodies = new Bodies(database)
    this.#rows = openRows(database, this.#bodies)
    this.#apply = prepareChanges(this.#rows)
    this.#inbox = prepareInbox(this.#rows)
    this.#poison = preparePoison(this.#rows)
    this.#begin = database.prepare('BEGIN IMMEDIATE')
    this.#commit = database.prepare('COMMIT')
    this.#rollback = database.prepare('ROLLBACK')
  }

  load(): Snapshot {
    return this.#guard(() => readSnapshot(this.#rows))
  }

  inbox(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    return this.#guard(() => this.#inbox(id, after, limit))
  }

  poison(id: ChannelId): readonly PoisonRecord[] {
    return this.#guard(() => this.#poison(id))
  }

  write(changes: readonly Change[]): void {
    if (changes.length === 0) return
    this.#guard(() => {
      this.#transaction(() => {
        for (const change of changes) this.#apply(change)
      })
    })
  }

  checkpoint(): void {
    this.#guard(() => {
      if (!this.#written) return
      this.#transaction(() => this.#bodies.deleteFree())
      this.#bodies.forget()
      truncateLog(this.#database)
      // After the truncation, so that the log is never empty: if it gets lost, the counter shows it.
      this.#counter.advance()
      this.#written = false
    })
  }

  close(): void {
    if (!this.#database.open) return
    try {
      this.checkpoint()
    } finally {
      this.#database.close()
    }
  }

  #transaction(work: () => void): void {
    this.#begin.run()
    this.#written = true
    try {
      work()
      this.#commit.run()
    } catch (error) {
      // SQLite may have rolled it back already, for example if the disk is full.
      if (this.#database.inTransaction) this.#rollback.run()
      this.#bodies.revert()
      throw error
    }
    this.#bodies.settle()
  }

  #guard<T>(work: () => T): T {
    if (!this.#database.open) throw StaticError.of('closed', 'The agent is closed.')
    try {
      return work()
    } catch (error) {
      throw storeError(error, this.#path)
    }
  }
}

/** Creates tables and identity in one transaction: a crash leaves both or an empty database. */
function create(database: Database, options: AgentStoreOptions): void {
  const { publicKey, secretKey } = options.makeIdentity()
  // An error in between closes the database, which rolls the transaction back.
  database.exec('BEGIN IMMEDIATE')
  createSchema(database)
  openRows(database)(IDENTITY).put({ one: 1, identity: options.identity, publicKey, secretKey })
  database.exec('COMMIT')
}

function checkIdentity(stored: Uint8Array, given: Uint8Array, directory: string): void {
  if (Buffer.compare(stored, given) === 0) return
  const name = JSON.stringify(Buffer.from(stored).toString())
  throw new StaticError(
    'invalid_request',
    `${directory} belongs to the agent ${name}. Use that identity, or choose another directory.`,
  )
}

/** Moves the log into the database and empties it. */
function truncateLog(database: Database): void {
  database.pragma('wal_checkpoint(TRUNCATE)')
}

function counterInDatabase(database: Database): CounterInDatabase {
  return {
    read: () => Number(database.prepare('SELECT value FROM opens').pluck().get()),
    write: (value) => {
      database.prepare('UPDATE opens SET value = ?').run(value)
    },
  }
}
