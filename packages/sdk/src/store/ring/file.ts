/**
 * The ring: a file of fixed size next to the database, with a record for every turn since the database was last
 * written. Overwriting a preallocated file and syncing it takes a sixth of the time of a transaction.
 *
 * Records are written one after the other, wrapping around at the end. A record is overwritten only when the database
 * has its changes; the last one that the database has is never overwritten (see replay.ts).
 */
import type { SecretKey } from '#platform/crypto'
import { StaticError } from '@static/protocol'
import { ALIGNMENT, NO_TAG, type RecordKind, recordSize, RecordOpener, RecordSealer } from './record.ts'
import { type NotedRing, readRing, type RingContent, ringFromAnotherTime, type RingPosition } from './replay.ts'

/** Room for 700 messages of 1 KiB. */
export const RING_BYTES: number = 1024 * 1024
/** The part of the ring that records may fill before the database is written, and the maximum for a single record. */
const MOST_USED = 3 / 4
const LONGEST = 1 / 4
/** Written in pieces to wipe records. */
const ZEROS = new Uint8Array(64 * 1024)

/** The file of a ring, as a platform keeps it. All calls are synchronous. */
export interface RingDisk {
  readonly path: string
  /** The size of the whole file in bytes. */
  readonly size: number
  /** Fills the array from the beginning of the file. Bytes of the array beyond the end of the file keep their value. */
  read(bytes: Uint8Array): void
  /** Overwrites bytes at a place. Throws unless all are written. */
  write(bytes: Uint8Array, place: number): void
  /** Written data is on disk when this returns. */
  flush(): void
  close(): void
  /** The `store_failed` for an error of `write` or `flush`. */
  failure(error: unknown): StaticError
}

/** The bytes of a new agent's ring, and the data that the database stores about it. */
export function newRing(secret: SecretKey, size: number): { readonly bytes: Uint8Array; readonly noted: NotedRing } {
  const bytes = new Uint8Array(size)
  const tag = new RecordSealer(secret).seal(bytes, 1, NO_TAG, 'changes', new Uint8Array())
  return { bytes, noted: { size, number: 1, place: 0, tag } }
}

/**
 * Reads the ring recorded in an agent's database. The database must be locked.
 *
 * Throws `store_rolled_back` or `store_corrupt`.
 */
export function readRingDisk(disk: RingDisk, secret: SecretKey, noted: NotedRing): RingContent {
  // Checked before it is read into memory, because the file may have any size.
  if (disk.size !== noted.size) throw ringFromAnotherTime(disk.path)
  const ring = new Uint8Array(noted.size)
  disk.read(ring)
  return readRing(ring, noted, new RecordOpener(secret), disk.path)
}

/** The newest record. `start` and `end` keep increasing from round to round. */
interface Newest extends RingPosition {
  readonly start: number
  readonly end: number
  /** Whether it contains no changes, and does not stand for any that the database may lack. */
  readonly isEmpty: boolean
}

/** The ring of a running agent. */
export class RingFile {
  readonly #disk: RingDisk
  readonly #size: number
  readonly #sealer: RecordSealer
  readonly #scratch: Uint8Array
  #newest: Newest
  /** The start of the last record that the database has. */
  #kept: number
  /** Records may exist from here to the newest one; everything else is wiped. */
  #dirty: number
  #failure: StaticError | undefined

  /** Continues after the last record of a ring. */
  constructor(disk: RingDisk, secret: SecretKey, { last, following, isWiped }: RingContent) {
    this.#disk = disk
    const { size } = disk
    this.#size = size - (size % ALIGNMENT)
    this.#sealer = new RecordSealer(secret)
    this.#scratch = new Uint8Array(Math.max(this.#limit, recordSize(0)))
    const { number, place, tag, size: length, kind, changes } = following.at(-1) ?? last
    const start = this.#size + place
    this.#newest = { number, place, tag, start, end: start + length, isEmpty: isEmpty(kind, changes) }
    this.#kept = last.place <= place ? this.#size + last.place : last.place
    this.#dirty = isWiped ? start : this.#newest.end - this.#size
  }

  /** The newest record. */
  get position(): RingPosition {
    return this.#newest
  }

  /** Whether the newest record contains no changes, so that no other is needed before the rest is wiped. */
  get isNewestEmpty(): boolean {
    return this.#newest.isEmpty
  }

  /** Whether a record with this many bytes of changes is small enough. */
  accepts(changes: number): boolean {
    return recordSize(changes) <= this.#limit
  }

  /** Whether such a record should be appended before the database has the changes of the others. */
  hasRoom(changes: number): boolean {
    const size = recordSize(changes)
    return this.#startOf(size) + size - this.#kept <= MOST_USED * this.#size
  }

  /** Appends a record, which is on disk when this returns. After an error, no more can be appended. */
  append(kind: RecordKind, changes: Uint8Array): void {
    if (this.#failure) throw this.#failure
    const size = recordSize(changes.length)
    const start = this.#startOf(size)
    if (start + size - this.#kept > this.#size)
      throw new StaticError('internal_error', `A record of ${size} bytes has no room in ${this.#disk.path}.`)
    const number = this.#newest.number + 1
    const place = start % this.#size
    const tag = this.#sealer.seal(this.#scratch, number, this.#newest.tag, kind, changes)
    this.#guard(() => {
      this.#disk.write(this.#scratch.subarray(0, size), place)
      this.#disk.flush()
    })
    this.#newest = { number, place, tag, start, end: start + size, isEmpty: isEmpty(kind, changes) }
  }

  /** The database has all changes: their records may be overwritten. */
  release(): void {
    this.#kept = this.#newest.start
  }

  /** Overwrites all records but the newest with zeros. The database must have their changes. */
  wipe(): void {
    const { start, end } = this.#newest
    this.#guard(() => {
      for (let from = Math.max(this.#dirty, end - this.#size); from < start;) {
        const place = from % this.#size
        const zeros = ZEROS.subarray(0, Math.min(start - from, this.#size - place))
        this.#disk.write(zeros, place)
        from += zeros.length
      }
      this.#disk.flush()
    })
    this.#dirty = start
  }

  close(): void {
    this.#disk.close()
  }

  /** The longest record: together with the last one that the database has, it always fits. */
  get #limit(): number {
    return this.#size * LONGEST
  }

  /** Where the next record of this size starts. If it does not fit at the end, it is placed at the beginning. */
  #startOf(size: number): number {
    const { end } = this.#newest
    const place = end % this.#size
    return place + size <= this.#size ? end : end + this.#size - place
  }

  #guard(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#failure = this.#disk.failure(error)
      throw this.#failure
    }
  }
}

function isEmpty(kind: RecordKind, changes: Uint8Array): boolean {
  return kind === 'changes' && changes.length === 0
}
