/**
 * Fills the tables of a new deployment in PostgreSQL. Rows and progress are committed together, so that the copy
 * continues after the last commit. The deployment's row comes last: no node starts without it.
 */
import { StaticError } from '@static/protocol'
import type { PostgresAddress } from '@static/node/postgres-address'
import type { Time } from '../../ports.ts'
import { sealed } from '../checksum.ts'
import { connect } from '../postgres/connector.ts'
import { IdDays } from '../postgres/days.ts'
import { refuseForeign } from '../postgres/deployment.ts'
import { fingerprint, makeRelayKey, readRelayKey } from '../postgres/relay-key.ts'
import { SCHEMA, TABLES, VERSION } from '../postgres/schema.ts'
import { type Session, statement } from '../postgres/session.ts'
import { columns } from '../postgres/write.ts'
import { fromJson, toJson } from '../records/json.ts'
import type { CopySource } from './source.ts'
import { type Mark, type Piece, START } from './piece.ts'
import { INSERTIONS, NUMBERED } from './tables.ts'

/** One row: the fingerprint of the source, and the progress, which is null once the copy is complete. */
const PROGRESS = 'CREATE TABLE copied_from (source bytea NOT NULL, progress text)'
const FOUND = statement(`SELECT to_regclass('${SCHEMA}.deployment') IS NOT NULL,
  to_regclass('${SCHEMA}.copied_from') IS NOT NULL`)
const BEGIN_COPY = statement('INSERT INTO copied_from VALUES ($1, $2)')
const READ_PROGRESS = statement('SELECT source, progress FROM copied_from')
// Finds no row if another copy is running and has advanced.
const ADVANCE = statement('UPDATE copied_from SET progress = $2 WHERE progress = $1 RETURNING 1')
const ADD_DEPLOYMENT = statement('INSERT INTO deployment VALUES ($1, $2, $3, $4)')
const SET_NUMBER = statement(`SELECT setval(pg_get_serial_sequence($1, $2), greatest($3::bigint, 1), $3::bigint > 0)`)
const ID_TIME = 4

/** The progress of a copy, and how many rows it has stored. */
export interface Progress {
  readonly mark: Mark
  readonly channels: number
  readonly entries: number
  readonly rows: number
}

const NONE: Progress = { mark: START, channels: 0, entries: 0, rows: 0 }

/** The database being filled. */
export class CopyTarget {
  readonly #session: Session
  readonly #keyFile: string
  readonly #days = new IdDays()
  #progress: Progress
  #isComplete: boolean

  private constructor(session: Session, keyFile: string, progress: Progress | undefined) {
    this.#session = session
    this.#keyFile = keyFile
    this.#progress = progress ?? NONE
    this.#isComplete = progress === undefined
  }

  /**
   * Opens the database, and creates the tables and `keyFile` for a new copy. Throws `invalid_request` if it contains
   * anything but an earlier part of this copy.
   */
  static async open(address: PostgresAddress, keyFile: string, source: CopySource): Promise<CopyTarget> {
    const { session } = await connect(address)
    try {
      await refuseForeign(session)
      const progress = await prepare(session, source.fingerprint)
      if (progress && !readRelayKey(keyFile)) makeRelayKey(keyFile)
      return new CopyTarget(session, keyFile, progress)
    } catch (error) {
      await session.end()
      throw error
    }
  }

  get progress(): Progress {
    return this.#progress
  }

  /** Whether an earlier run has stored everything. */
  get isComplete(): boolean {
    return this.#isComplete
  }

  /** Stores pieces in one transaction. */
  async store(pieces: readonly Piece[]): Promise<void> {
    const last = pieces.at(-1)
    if (!last) return
    const rows = pieces.flatMap((piece) => piece.rows)
    const byTable = Map.groupBy(rows, ({ table }) => table)
    for (const { values } of byTable.get('ids') ?? []) await this.#ensureDay(values[ID_TIME] as Time)
    const { channels, entries, rows: before } = this.#progress
    await this.#commit(
      {
        mark: last.mark,
        channels: channels + (byTable.get('channels')?.length ?? 0),
        entries: entries + (byTable.get('entries')?.length ?? 0),
        rows: before + rows.length,
      },
      async () => {
        for (const [table, some] of byTable) {
          const insertion = INSERTIONS.get(table)
          if (!insertion) throw new Error(`no statement stores ${table}`)
          const values = some.map((row) => row.values)
          await this.#session.rows(insertion.statement, columns(values, insertion.columns))
        }
      },
    )
  }

  /** Turns the copied rows into a deployment. */
  async finish(source: CopySource): Promise<void> {
    await this.#commit(undefined, async () => {
      for (const table of ['channels', 'welcomes', 'joins', 'invites'] as const) {
        await this.#session.rows(SET_NUMBER, [table, NUMBERED[table], source.lastNumber(table)])
      }
      const key = readRelayKey(this.#keyFile)
      if (!key) throw StaticError.of('invalid_request', `${this.#keyFile} was deleted. Run the command again.`)
      await this.#session.rows(ADD_DEPLOYMENT, sealed([source.relayId, fingerprint(key), VERSION]))
    })
    this.#isComplete = true
  }

  async close(): Promise<void> {
    await this.#session.end()
  }

  /** Does the work and records the progress, or neither. */
  async #commit(next: Progress | undefined, work: () => Promise<void>): Promise<void> {
    await this.#session.run('BEGIN')
    try {
      await work()
      const moved = await this.#session.rows(ADVANCE, [toJson(this.#progress), next ? toJson(next) : null])
      if (moved.length === 0) throw StaticError.of('store_locked', 'Another copy into this database is running.')
      await this.#session.run('COMMIT')
    } catch (error) {
      await this.#session.run('ROLLBACK').catch(() => {})
      throw error
    }
    if (next) this.#progress = next
  }

  async #ensureDay(at: Time): Promise<void> {
    if (!this.#days.has(at)) await this.#days.ensure(this.#session, at)
  }
}

/** The progress of the copy of a source; undefined if it is complete. Creates the tables for a new copy. */
async function prepare(session: Session, source: Buffer): Promise<Progress | undefined> {
  const [found] = await session.rows(FOUND)
  const [isUsed, isCopy] = found as [boolean, boolean]
  if (isCopy) return readProgress(session, source)
  if (isUsed) throw occupied()
  await session.run('BEGIN')
  try {
    await session.run(`CREATE SCHEMA IF NOT EXISTS ${SCHEMA}`)
    await session.run(`${TABLES};${PROGRESS}`)
    await session.rows(BEGIN_COPY, [source, toJson(NONE)])
    await session.run('COMMIT')
  } catch (error) {
    await session.run('ROLLBACK')
    // A node or another copy got there first.
    const [now] = await session.rows(FOUND)
    if (now?.[0] === true) throw occupied()
    throw error
  }
  return NONE
}

async function readProgress(session: Session, source: Buffer): Promise<Progress | undefined> {
  const [row] = await session.rows(READ_PROGRESS)
  const [copied, progress] = (row ?? []) as [Uint8Array?, (string | null)?]
  if (copied === undefined || Buffer.compare(copied, source) !== 0) {
    throw StaticError.of(
      'invalid_request',
      `The database contains a copy of another file, or of this file before it was changed. Use an empty database.`,
    )
  }
  return progress === null || progress === undefined ? undefined : (fromJson(progress) as Progress)
}

function occupied(): StaticError {
  return StaticError.of('invalid_request', 'The database already belongs to a relay. Copy into an empty database.')
}
