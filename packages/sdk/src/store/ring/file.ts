/**
 * The ring: a file of fixed size beside the database, with a record for every turn since the database was last written
 * to. Overwriting a preallocated file and syncing it takes a sixth of the time of a transaction.
 *
 * Records are written one after the other and, at the end, from the beginning again. One is overwritten only when the
 * database has its changes; the last that the database has is never overwritten (see replay.ts).
 */
import type { KeyObject } from 'node:crypto'
import { closeSync, constants, fdatasyncSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { checkPrivateFile, isErrno, replaceFile } from '@static/node/files'
import { StaticError } from '@static/protocol'
import { diskFailure } from '../disk-error.ts'
import { ALIGNMENT, NO_TAG, type RecordKind, recordSize, RecordOpener, RecordSealer } from './record.ts'
import { type NotedRing, readRing, type RingContent, ringFromAnotherTime, type RingPosition } from './replay.ts'

/** Room for 700 messages of 1 KiB. */
export const RING_BYTES: number = 1024 * 1024
/** The part of the ring that records may take before the database is written to, and the most that one may take. */
const MOST_USED = 3 / 4
const LONGEST = 1 / 4
/** Written in pieces when records are wiped. */
const ZEROS = Buffer.alloc(64 * 1024)

/** Path of the ring in an agent's directory. */
export function ringFile(directory: string): string {
  return join(directory, 'agent.ring')
}

/** Creates the ring of a new agent, replacing any other. Returns what the database notes of it. */
export function createRing(path: string, secret: KeyObject, size: number): NotedRing {
  const ring = Buffer.alloc(size)
  const tag = new RecordSealer(secret).seal(ring, 1, NO_TAG, 'changes', Buffer.alloc(0))
  replaceFile(path, ring, 0o600)
  return { size, number: 1, place: 0, tag }
}

/**
 * Reads the ring that an agent's database has noted. The database must be locked.
 *
 * Throws `store_rolled_back`, `store_corrupt`, `store_permissions`, or `invalid_request` if it is not a regular file.
 */
export function readRingFile(path: string, secret: KeyObject, noted: NotedRing): RingContent {
  const file = openRing(path)
  try {
    // Before it is read into memory: a file of any size may be there.
    if (fstatSync(file).size !== noted.size) throw ringFromAnotherTime(path)
    const ring = Buffer.alloc(noted.size)
    for (let at = 0; at < ring.length;) {
      const count = readSync(file, ring, at, ring.length - at, at)
      if (count === 0) break
      at += count
    }
    return readRing(ring, noted, new RecordOpener(secret), path)
  } finally {
    closeSync(file)
  }
}

/** The newest record; `start` and `end` count on from round to round. */
interface Newest extends RingPosition {
  readonly start: number
  readonly end: number
  /** Whether it holds no changes, and stands for none that the database may lack. */
  readonly isEmpty: boolean
}

/** The ring of a running agent. */
export class RingFile {
  readonly #path: string
  readonly #file: number
  readonly #size: number
  readonly #sealer: RecordSealer
  readonly #scratch: Buffer
  #newest: Newest
  /** Start of the last record that the database has. */
  #kept: number
  /** From here to the newest record there may be others; everything else is wiped. */
  #dirty: number
  #failure: StaticError | undefined

  /** Continues after the last record of a ring. */
  constructor(path: string, secret: KeyObject, { last, following, isWiped }: RingContent) {
    this.#path = path
    this.#file = openRing(path)
    const { size } = fstatSync(this.#file)
    this.#size = size - (size % ALIGNMENT)
    this.#sealer = new RecordSealer(secret)
    this.#scratch = Buffer.allocUnsafeSlow(Math.max(this.#limit, recordSize(0)))
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

  /** Whether the newest record holds no changes, so that no other is needed before the rest is wiped. */
  get isNewestEmpty(): boolean {
    return this.#newest.isEmpty
  }

  /** Whether a record with so many bytes of changes is small enough. */
  accepts(changes: number): boolean {
    return recordSize(changes) <= this.#limit
  }

  /** Whether it should be appended before the database has the changes of others. */
  hasRoom(changes: number): boolean {
    const size = recordSize(changes)
    return this.#startOf(size) + size - this.#kept <= MOST_USED * this.#size
  }

  /** Appends a record; it is on disk when this returns. After an error nothing more can be appended. */
  append(kind: RecordKind, changes: Uint8Array): void {
    if (this.#failure) throw this.#failure
    const size = recordSize(changes.length)
    const start = this.#startOf(size)
    if (start + size - this.#kept > this.#size)
      throw new StaticError('internal_error', `A record of ${size} bytes has no room in ${this.#path}.`)
    const number = this.#newest.number + 1
    const place = start % this.#size
    const tag = this.#sealer.seal(this.#scratch, number, this.#newest.tag, kind, changes)
    this.#guard(() => {
      this.#write(this.#scratch.subarray(0, size), place)
      fdatasyncSync(this.#file)
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
        this.#write(zeros, place)
        from += zeros.length
      }
      fdatasyncSync(this.#file)
    })
    this.#dirty = start
  }

  close(): void {
    closeSync(this.#file)
  }

  /** The longest record: with the last one that the database has, it always has room. */
  get #limit(): number {
    return this.#size * LONGEST
  }

  /** Where the next record of this size starts: one that does not fit at the end is put at the beginning. */
  #startOf(size: number): number {
    const { end } = this.#newest
    const place = end % this.#size
    return place + size <= this.#size ? end : end + this.#size - place
  }

  #write(bytes: Uint8Array, place: number): void {
    const written = writeSync(this.#file, bytes, 0, bytes.length, place)
    if (written !== bytes.length) throw new Error(`only ${written} of ${bytes.length} bytes were written`)
  }

  #guard(work: () => void): void {
    try {
      work()
    } catch (error) {
      const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error)
      this.#failure = new StaticError('store_failed', diskFailure(reason, this.#path), { cause: error })
      throw this.#failure
    }
  }
}

function isEmpty(kind: RecordKind, changes: Uint8Array): boolean {
  return kind === 'changes' && changes.length === 0
}

function openRing(path: string): number {
  let file: number
  try {
    // Without O_NONBLOCK, a FIFO at this path would block forever.
    file = openSync(path, constants.O_RDWR | constants.O_NONBLOCK | constants.O_NOFOLLOW)
  } catch (error) {
    if (isErrno(error, 'ENOENT')) throw ringFromAnotherTime(path)
    // Its records are overwritten in place: not those of a file elsewhere.
    if (isErrno(error, 'ELOOP')) throw new StaticError('invalid_request', `${path} is a symbolic link, not a file.`)
    throw error
  }
  try {
    checkPrivateFile(path, fstatSync(file))
    return file
  } catch (error) {
    closeSync(file)
    throw error
  }
}
