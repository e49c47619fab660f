/**
 * An open agent's database with the ring in front of it. A turn is on disk when its record is in the ring. The database
 * gets the sum of many turns in one transaction, which also records the last ring record that it has.
 */
import { cancelTimer, startBackgroundTimer, type Timer } from '#platform/turn'
import { StaticError } from '@static/protocol'
import type {
  AgentStore,
  Change,
  ChannelId,
  InboxRecord,
  KeptRecord,
  KeptSize,
  PoisonRecord,
  Snapshot,
  UploadPart,
} from '../../ports/index.ts'
import { Bodies, deleteLeftovers } from '../bodies.ts'
import type { OpenCounter } from '../open-counter.ts'
import { RING_BYTES, type RingFile } from './file.ts'
import type { RingRecord } from './record.ts'
import { type RingPosition, wipeChanges } from './replay.ts'
import { RowBuffer } from '../rows/row-buffer.ts'
import {
  prepareAnswers,
  prepareFiles,
  prepareInbox,
  prepareKept,
  preparePoison,
  prepareRequests,
  readSnapshot,
} from '../snapshot.ts'
import { openRows } from '../rows/sql-rows.ts'
import type { Database, Statement } from '../sqlite.ts'
import type { ReadsOf } from '../rows/table.ts'

/**
 * How long the database may lag behind the ring, in milliseconds. A message that is answered or settled within this
 * time never reaches the database: with 50 ms, nearly half of them did.
 */
const BEHIND_MS = 250
/** How many turns it may lag behind. */
const BEHIND_TURNS = 256
const NOTHING = new Uint8Array(0)

/** A database and its ring. */
export class RingStore implements AgentStore {
  readonly #database: Database
  readonly #explain: (error: unknown) => unknown
  readonly #counter: OpenCounter
  readonly #ring: RingFile
  readonly #bodies: Bodies
  readonly #buffer: RowBuffer
  readonly #rows: ReadsOf
  readonly #inbox: AgentStore['inbox']
  readonly #poison: AgentStore['poison']
  readonly #requests: AgentStore['requests']
  readonly #answers: AgentStore['answers']
  readonly #files: ReturnType<typeof prepareFiles>
  readonly #kept: ReturnType<typeof prepareKept>
  readonly #begin: Statement
  readonly #commit: Statement
  readonly #rollback: Statement
  readonly #note: Statement
  /** Turns that the database does not have yet. */
  #behind = 0
  #timer: Timer | undefined
  /** Whether a checkpoint has anything to move or to wipe. */
  #written = false
  /** Why the agent must stop. Changes that only the ring has are written to the database at the next start. */
  #failure: unknown
  #failed: ((error: unknown) => void) | undefined

  /** `explain` converts an error from the database or the disk to the caller's error. */
  constructor(database: Database, explain: (error: unknown) => unknown, counter: OpenCounter, ring: RingFile) {
    this.#database = database
    this.#explain = explain
    this.#counter = counter
    this.#ring = ring
    this.#bodies = new Bodies(database)
    this.#buffer = new RowBuffer(database, this.#bodies, RING_BYTES)
    this.#rows = openRows(database)
    this.#inbox = prepareInbox(this.#rows)
    this.#poison = preparePoison(this.#rows)
    this.#requests = prepareRequests(this.#rows)
    this.#answers = prepareAnswers(this.#rows)
    this.#files = prepareFiles(this.#rows)
    this.#kept = prepareKept(this.#rows)
    this.#begin = database.prepare('BEGIN IMMEDIATE')
    this.#commit = database.prepare('COMMIT')
    this.#rollback = database.prepare('ROLLBACK')
    this.#note = database.prepare('UPDATE ring SET number = ?, place = ?, tag = ?')
  }

  load(): Snapshot {
    return this.#read(() => readSnapshot(this.#rows))
  }

  inbox(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    return this.#read(() => this.#inbox(id, after, limit))
  }

  poison(id: ChannelId): readonly PoisonRecord[] {
    return this.#read(() => this.#poison(id))
  }

  requests(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    return this.#read(() => this.#requests(id, after, limit))
  }

  answers(id: ChannelId): readonly InboxRecord[] {
    return this.#read(() => this.#answers(id))
  }

  fileDigests(id: ChannelId, index: number): Uint8Array | undefined {
    return this.#read(() => this.#files.fileDigests(id, index))
  }

  uploadParts(id: ChannelId, fileId: Uint8Array): readonly UploadPart[] {
    return this.#read(() => this.#files.uploadParts(id, fileId))
  }

  kept(id: ChannelId, before: number, limit: number): readonly KeptRecord[] {
    return this.#read(() => this.#kept.kept(id, before, limit))
  }

  keptSizes(id: ChannelId, before: number, limit: number): readonly KeptSize[] {
    return this.#read(() => this.#kept.keptSizes(id, before, limit))
  }

  write(changes: readonly Change[]): void {
    if (changes.length === 0) return
    this.#guard(() => {
      const turn = this.#buffer.record(changes)
      this.#written = true
      try {
        this.#append(turn)
      } catch (error) {
        this.#buffer.abandon()
        this.#failure = error
        throw error
      }
      if (++this.#behind >= BEHIND_TURNS) this.#writeBehind()
      else this.#timer ??= startBackgroundTimer(BEHIND_MS, () => this.#writeInTime())
    })
  }

  onFailure(listener: (error: unknown) => void): void {
    this.#failed = listener
  }

  checkpoint(): void {
    this.#guard(() => {
      if (!this.#written) return
      this.#writeBehind()
      try {
        this.#checkpoint(() => this.#bodies.deleteFree())
      } catch (error) {
        this.#failure = error
        throw error
      }
      this.#written = false
    })
  }

  close(): void {
    if (!this.#database.open) return
    cancelTimer(this.#timer)
    try {
      if (this.#failure === undefined) this.checkpoint()
    } finally {
      // After a failure it holds changes that only the ring has.
      this.#buffer.clear()
      this.#ring.close()
      this.#database.close()
    }
  }

  /** Writes the changes that the database lacks, and removes leftovers of a crash. */
  begin(following: readonly RingRecord[]): void {
    let last: RingPosition | undefined
    try {
      for (const record of following) {
        this.#buffer.replay(record.changes)
        if (!this.#buffer.hasRoom) this.#writeBehind(last)
        this.#buffer.keep()
        last = record
      }
    } finally {
      wipeChanges(following)
    }
    // Even if there is nothing to write. A `direct` record whose transaction was lost is recorded before anything is
    // appended: with another record after it, it would look like an acknowledged one.
    if (last !== undefined) this.#writeAll(last)
    this.#checkpoint(() => deleteLeftovers(this.#database))
  }

  #append(turn: Uint8Array): void {
    const isSmall = this.#ring.accepts(turn.length)
    if (!isSmall || !this.#buffer.hasRoom || !this.#ring.hasRoom(turn.length)) this.#writeBehind()
    if (isSmall) this.#ring.append('changes', turn)
    else this.#ring.append('direct', NOTHING)
    this.#buffer.keep()
    if (isSmall) return
    this.#writeBehind()
    // From now on, a database without this turn is detected: see `isLost` in replay.ts.
    this.#ring.append('changes', NOTHING)
  }

  /** Writes the outstanding changes to the database. */
  #writeBehind(last: RingPosition = this.#ring.position): void {
    cancelTimer(this.#timer)
    this.#timer = undefined
    if (!this.#buffer.isEmpty) this.#writeAll(last)
  }

  #writeAll(last: RingPosition): void {
    this.#transaction(last, () => this.#buffer.write())
    this.#buffer.clear()
    this.#behind = 0
  }

  #writeInTime(): void {
    try {
      this.#guard(() => this.#writeBehind())
    } catch {
      // The listener knows, and the next call throws it again.
    }
  }

  /** Empties the log, and wipes the ring except for a record without keys. */
  #checkpoint(clean: () => void): void {
    // Repeated failing starts must not fill the ring.
    if (!this.#ring.isNewestEmpty) this.#ring.append('changes', NOTHING)
    this.#transaction(this.#ring.position, clean)
    this.#bodies.forget()
    this.#ring.wipe()
    this.#database.pragma('wal_checkpoint(TRUNCATE)')
    // After the truncation, so that the log is never empty: if it is lost, the counter reveals it.
    this.#counter.advance()
  }

  /** A transaction after which the database has the changes up to a ring record. */
  #transaction({ number, place, tag }: RingPosition, work: () => void): void {
    try {
      this.#begin.run()
      work()
      this.#note.run(number, place, tag)
      this.#commit.run()
    } catch (error) {
      this.#failure = error
      // SQLite may have rolled it back already, for example if the disk is full.
      if (this.#database.inTransaction) this.#rollback.run()
      this.#bodies.revert()
      throw error
    }
    this.#bodies.commit()
    this.#ring.release()
  }

  #read<T>(work: () => T): T {
    return this.#guard(() => {
      this.#writeBehind()
      return work()
    })
  }

  #guard<T>(work: () => T): T {
    if (!this.#database.open) throw StaticError.of('closed', 'The agent is closed.')
    try {
      if (this.#failure !== undefined) throw this.#failure
      return work()
    } catch (cause) {
      const error = this.#explain(cause)
      // Not after an error that only affected reading: the database and the agent's memory still agree.
      if (this.#failure !== undefined) this.#report(error)
      throw error
    }
  }

  #report(error: unknown): void {
    const failed = this.#failed
    this.#failed = undefined
    failed?.(error)
  }
}
