/** Runs calls in transactions: many share one, and a failing call does not affect the others. */
import { hash } from 'node:crypto'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Hash } from '@static/protocol'
import type { Retention, StoreOperation, Time } from '../../ports.ts'
import type { Answer, Call } from '../call.ts'
import { Ledger, type Decision } from '../ledger/ledger.ts'
import { isDamage } from './damage.ts'
import { SqliteRows } from './rows.ts'

/** How often free pages are returned to the file system, how many at most, and how many are kept for reuse. */
const COMPACT_MS = 10_000
const COMPACT_PAGES = 2048
const SPARE_PAGES = 256

/** Read-only, I/O error, corrupt, full, cannot open, not a database: faults of the storage, not of the statement. */
const STORAGE_ERRORS = new Set([8, 10, 11, 13, 14, 26])

const READING = new Set<StoreOperation>([
  'read',
  'resume',
  'welcomes',
  'invite',
  'owned',
  'heads',
  'notices',
  'fileStatus',
  'admitPart',
  'findPart',
  'dueFiles',
  'knownFiles',
])

const sha256: Hash = (bytes) => hash('sha256', bytes, 'buffer')

/** The points at which tests crash the engine. */
export type EngineStep =
  | 'before_begin'
  | 'after_insert_before_commit'
  | 'after_commit_before_answer'
  | 'in_sweep'
  | 'before_checkpoint'

/** Runs calls on a database. */
export class SqliteEngine {
  readonly #db: DatabaseSync
  readonly #rows: SqliteRows
  readonly #ledger: Ledger
  readonly #onStep: ((step: EngineStep) => void) | undefined
  readonly #begin: StatementSync
  readonly #commit: StatementSync
  readonly #totalChanges: StatementSync
  #compacted: { readonly at: Time; readonly changes: number } = { at: 0, changes: 0 }
  #healthy = true
  #damaged = false
  #transactions = 0
  #commitMs: number[] = []

  constructor(db: DatabaseSync, retention: Retention, onStep?: (step: EngineStep) => void) {
    this.#db = db
    this.#rows = new SqliteRows(db, sha256, retention.entryMs, { onDamage: (error) => this.#blame(error) })
    this.#ledger = new Ledger(this.#rows, sha256, retention)
    this.#onStep = onStep
    this.#begin = db.prepare('BEGIN IMMEDIATE')
    this.#commit = db.prepare('COMMIT')
    this.#totalChanges = db.prepare('SELECT total_changes() AS changes')
  }

  /** False after a failed write until one succeeds; permanently false once damage was found. */
  get healthy(): boolean {
    return this.#healthy && !this.#damaged
  }

  get transactions(): number {
    return this.#transactions
  }

  /** The duration of each commit since the last call, including its flush to disk. */
  takeCommitMs(): readonly number[] {
    const taken = this.#commitMs
    this.#commitMs = []
    return taken
  }

  /** Runs all calls in one transaction. If that fails, runs each in its own, so that only the failing one fails. */
  run(calls: readonly Call[]): Answer[] {
    try {
      return this.#transaction(calls)
    } catch (error) {
      if (calls.length > 1) return calls.flatMap((call) => this.run([call]))
      return [this.#failed(error)]
    }
  }

  /** Writes everything deferred. Without it, the next start replays the entries. */
  close(): void {
    try {
      this.#atomic(() => this.#rows.store())
    } catch (error) {
      this.#blame(error)
    }
  }

  /** Returns free space to the file system, if it is time and there is any. */
  compact(now: Time): void {
    const changes = this.#changes()
    const free = Math.max(0, this.#freePages() - SPARE_PAGES)
    const { at, changes: before } = this.#compacted
    if (Math.abs(now - at) < COMPACT_MS || (free === 0 && changes === before)) return
    this.#compacted = { at: now, changes }
    try {
      if (free > 0) this.#db.exec(`PRAGMA incremental_vacuum(${Math.min(free, COMPACT_PAGES)})`)
      this.#onStep?.('before_checkpoint')
      this.#db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    } catch (error) {
      this.#blame(error)
    }
  }

  #transaction(calls: readonly Call[]): Answer[] {
    const before = this.#healthy ? 0 : this.#changes()
    this.#onStep?.('before_begin')
    const answers = this.#atomic(() => {
      const decided = calls.map(({ name, request }) => this.#call(name, request))
      this.#rows.flush()
      this.#rows.settle()
      this.#onStep?.('after_insert_before_commit')
      return decided
    })
    this.#onStep?.('after_commit_before_answer')
    this.#transactions += 1
    this.#healthy ||= this.#changes() > before
    return answers
  }

  /** Commits all of the work or nothing. If a channel that it does not need is damaged, tries again without it. */
  #atomic<Result>(work: () => Result): Result {
    for (;;) {
      try {
        this.#begin.run()
        const result = work()
        const started = performance.now()
        this.#commit.run()
        this.#commitMs.push(performance.now() - started)
        this.#rows.channels.committed()
        return result
      } catch (error) {
        if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
        if (!this.#rows.forget(error)) throw error
      }
    }
  }

  #call(name: StoreOperation, request: Call['request']): Answer {
    let outcome: Decision<StoreOperation>
    try {
      outcome = this.#ledger.run(name, request)
    } catch (error) {
      // Nothing to roll back, so repeated requests for damaged data do not slow down the others.
      if (isDamage(error) && READING.has(name)) return this.#failed(error)
      throw error
    }
    if (name === 'sweep') {
      // An unhealthy store gets no writes, so test whether it has recovered.
      if (!this.#healthy) this.#db.exec('UPDATE deployment SET relay_id = relay_id')
      this.#onStep?.('in_sweep')
    }
    return outcome
  }

  #failed(error: unknown): Answer {
    this.#blame(error)
    return { failed: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }

  #blame(error: unknown): void {
    this.#damaged ||= isDamage(error)
    const { errcode } = error as { errcode?: number }
    if (errcode !== undefined && STORAGE_ERRORS.has(errcode & 0xff)) this.#healthy = false
  }

  #changes(): number {
    return Number(this.#totalChanges.get()?.['changes'])
  }

  #freePages(): number {
    return Number(this.#db.prepare('PRAGMA freelist_count').get()?.['freelist_count'])
  }
}
