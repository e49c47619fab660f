/** Rows in SQLite. */
import type { DatabaseSync } from 'node:sqlite'
import type { Hash } from '@static/protocol'
import { intact, sealed } from '../checksum.ts'
import type { Rows } from '../ledger/rows/rows.ts'
import type { Channel } from '../ledger/state.ts'
import { type Statements, prepareStatements } from './statements.ts'
import { SqliteAccountRows } from './tables/accounts.ts'
import { SqliteChannelRows } from './tables/channels.ts'
import { purgeDropped } from './tables/dropped.ts'
import { SqliteDueRows } from './tables/due.ts'
import { SqliteFileRows } from './tables/files.ts'
import { SqliteIdRows } from './tables/ids.ts'
import { SqliteInviteRows } from './tables/invites.ts'
import { lastSequence, lateChannels } from './tables/late-channels.ts'
import { SqliteLogRows } from './tables/log.ts'
import { SqliteNameRows } from './tables/names.ts'
import { SqliteOwnedRows } from './tables/owned.ts'
import { SqliteSlotRows } from './tables/slots.ts'
import { SqliteTransientRows } from './tables/transient.ts'
import { SqliteWelcomeRows } from './tables/welcomes.ts'

/** Maximum number of entries whose effects are not stored; the next start after a crash replays them. */
const MAX_LATE = 4096

interface RowsOptions {
  /** Approximate memory limit for channel records. */
  readonly cachedBytes?: number
  /** Called for damage that fails no call. */
  readonly onDamage?: (error: unknown) => void
}

/** The rows of an open database. */
export class SqliteRows implements Rows {
  readonly channels: SqliteChannelRows
  readonly names: SqliteNameRows
  readonly accounts: SqliteAccountRows
  readonly log: SqliteLogRows
  readonly slots: SqliteSlotRows
  readonly ids: SqliteIdRows
  readonly welcomes: SqliteWelcomeRows
  readonly invites: SqliteInviteRows
  readonly files: SqliteFileRows
  readonly transient: SqliteTransientRows
  readonly owned: SqliteOwnedRows
  readonly due: SqliteDueRows
  readonly #statements: Statements
  /** The number of the entry up to which all rows are stored, except those of damaged channels; undefined: not known. */
  #stored: number | undefined

  /** `entryMs` is how long entries are kept. */
  constructor(db: DatabaseSync, hash: Hash, entryMs: number, { cachedBytes, onDamage }: RowsOptions = {}) {
    const statements = prepareStatements(db)
    const store = (): void => this.store()
    this.#statements = statements
    this.channels = new SqliteChannelRows(statements, { hash, entryMs, onDamage }, cachedBytes)
    const [stored] = intact(statements.stored.get(), 'stored') as [number]
    this.#stored = stored
    this.log = new SqliteLogRows(statements, hash, this.channels, Math.max(stored, lastSequence(statements, onDamage)))
    this.channels.behind(lateChannels(statements, stored, onDamage))
    this.names = new SqliteNameRows(statements, () => this.channels.flush())
    this.accounts = new SqliteAccountRows(statements, store)
    this.slots = new SqliteSlotRows(statements)
    this.ids = new SqliteIdRows(statements)
    this.welcomes = new SqliteWelcomeRows(statements)
    this.invites = new SqliteInviteRows(db)
    this.files = new SqliteFileRows(db)
    this.transient = new SqliteTransientRows(db)
    this.owned = new SqliteOwnedRows(statements, store)
    this.due = new SqliteDueRows(statements, store, onDamage)
  }

  /** Writes changed records, except what can be derived from entries. Must be called before the transaction commits. */
  flush(): void {
    if (this.log.sequence - (this.#stored ?? 0) > MAX_LATE) this.store()
    else this.channels.flush()
  }

  /** Writes all changed records. */
  store(): void {
    this.channels.store()
    const { sequence } = this.log
    if (sequence !== this.#stored) this.#statements.putStored.run(...sealed([sequence]))
    this.#stored = sequence
  }

  settle(): void {
    this.channels.settle()
    this.accounts.settle()
  }

  /**
   * Forgets everything in memory, because its transaction was rolled back. Returns whether to retry: the transaction
   * failed because of a damaged channel that no call needs, which is left out from now on.
   */
  forget(error: unknown): boolean {
    const isWorthIt = this.channels.clear() || this.due.leaveOut(error)
    this.due.restart()
    this.accounts.clear()
    this.#stored = undefined
    this.ids.restart()
    return isWorthIt
  }

  dropChannel(channel: Channel): void {
    this.invites.dropAll(channel)
    this.files.endAll(channel)
    this.channels.drop(channel)
  }

  purge(): void {
    purgeDropped(this.#statements, (account, bytes) => (this.accounts.get(account).bytes -= bytes))
  }
}
