/**
 * Reads the changes in a ring that the database lacks. The database knows the last record that it has. That record must
 * still be in the ring, so a missing ring or one from another time is detected. Later records follow one another, each
 * with the tag of the previous one. A torn last record was never acknowledged and is ignored; damage before other
 * records is an error.
 *
 * It does not detect a ring restored to a state since the database was last written (250 ms), nor that its newest
 * records were cut off. The relay's head reveals both.
 */
import { StaticError } from '@static/protocol'
import { isZero, same } from '../../platform/bytes.ts'
import { oldCopyError } from '../old-copy.ts'
import { ALIGNMENT, type RecordOpener, type RingRecord } from './record.ts'
import type { Database } from '../sqlite.ts'

/** The last record whose changes are in the database. */
export interface RingPosition {
  readonly number: number
  readonly place: number
  readonly tag: Uint8Array
}

/** The data that the database stores about its ring. */
export interface NotedRing extends RingPosition {
  /** The size of the whole file in bytes. */
  readonly size: number
}

/** The record at a position, and those after it, in order. */
export interface RingContent {
  readonly last: RingRecord
  readonly following: readonly RingRecord[]
  /** Whether the ring contains nothing else, as after an orderly close. */
  readonly isWiped: boolean
}

/**
 * Reads a ring.
 *
 * Throws `store_rolled_back` if it does not match the current database, `store_corrupt` if it is damaged.
 */
export function readRing(ring: Uint8Array, position: RingPosition, opener: RecordOpener, path: string): RingContent {
  const last = opener.open(ring, position.place, position.number)
  // The database has its changes.
  last?.changes.fill(0)
  if (last === undefined || !same(last.tag, position.tag)) throw ringFromAnotherTime(path)
  const following: RingRecord[] = []
  for (let before = last; ;) {
    // A record that did not fit at the end is at the beginning.
    const next = [endOf(before), 0]
      .map((place) => opener.open(ring, place, before.number + 1))
      .find((record) => record && same(record.before, before.tag))
    if (next === undefined) break
    following.push(next)
    before = next
  }
  const isWiped = following.length === 0 && isZero(ring.subarray(0, last.place)) && isZero(ring.subarray(endOf(last)))
  try {
    // Searching for records takes milliseconds, which every short command of an agent would have to wait for.
    if (!isWiped) checkNothingAfter(ring, following.at(-1) ?? last, opener, path)
    // Another record follows a `direct` one only after the database has its turn.
    const isLost = following.slice(0, -1).some(({ kind }) => kind === 'direct')
    if (isLost) throw ringFromAnotherTime(path)
  } catch (error) {
    wipeChanges(following)
    throw error
  }
  return { last, following, isWiped }
}

export function noteRing(database: Database, { size, number, place, tag }: NotedRing): void {
  database.prepare('INSERT OR REPLACE INTO ring VALUES (1, ?, ?, ?, ?)').run(size, number, place, tag)
}

/** The ring that the database has on record. */
export function notedRing(database: Database): NotedRing {
  const found = database.prepare<NotedRing>('SELECT size, number, place, tag FROM ring').get()
  if (found === undefined) throw new StaticError('store_corrupt', "The agent's database has no position in the ring.")
  return found
}

/** For a ring that does not match the database: one of the two is an old copy. */
export function ringFromAnotherTime(path: string): StaticError {
  return oldCopyError(
    `${path} is missing, damaged or does not match the agent's database: one of them may be an old copy.`,
  )
}

/** Wipes decrypted changes, because they contain keys. */
export function wipeChanges(records: readonly RingRecord[]): void {
  for (const { changes } of records) changes.fill(0)
}

function endOf({ place, size }: RingRecord): number {
  return place + size
}

/** Only a torn record may come after the last one: if an intact record follows it, it was acknowledged. */
function checkNothingAfter(ring: Uint8Array, last: RingRecord, opener: RecordOpener, path: string): void {
  for (let place = 0; place < ring.length; place += ALIGNMENT) {
    const number = opener.numberAt(ring, place)
    if (number === undefined || number <= last.number || number > last.number + ring.length / ALIGNMENT) continue
    const record = opener.open(ring, place, number)
    if (record === undefined) continue
    wipeChanges([record])
    throw new StaticError('store_corrupt', `${path} is damaged: record ${last.number + 1} is missing or changed.`)
  }
}
