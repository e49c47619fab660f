/**
 * What a ring holds that the database lacks. The database knows the last record that it has: that record must still be
 * in the ring, so a ring that is missing or of another time is noticed. The records after it follow one another,
 * each with the tag of the one before it. A last
 * record that is torn was never acknowledged and does not count; damage before others does.
 *
 * It does not detect a ring that was restored to a state since the database was last written to (250 ms), nor that its
 * newest records were cut off. The relay's head reveals both.
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

/** What the database notes of its ring. */
export interface NotedRing extends RingPosition {
  /** Bytes of the whole file. */
  readonly size: number
}

/** The record at a position, and those after it, in order. */
export interface RingContent {
  readonly last: RingRecord
  readonly following: readonly RingRecord[]
  /** Whether nothing else is in the ring, as after an orderly close. */
  readonly isWiped: boolean
}

/**
 * Reads a ring.
 *
 * Throws `store_rolled_back` if it does not belong to the database as it is, `store_corrupt` if it is damaged.
 */
export function readRing(ring: Uint8Array, position: RingPosition, opener: RecordOpener, path: string): RingContent {
  const last = opener.open(ring, position.place, position.number)
  // The database has its changes.
  last?.changes.fill(0)
  if (last === undefined || !same(last.tag, position.tag)) throw ringFromAnotherTime(path)
  const following: RingRecord[] = []
  for (let before = last; ;) {
    // A record that would not fit at the end is at the beginning.
    const next = [endOf(before), 0]
      .map((place) => opener.open(ring, place, before.number + 1))
      .find((record) => record && same(record.before, before.tag))
    if (next === undefined) break
    following.push(next)
    before = next
  }
  const isWiped = following.length === 0 && isZero(ring.subarray(0, last.place)) && isZero(ring.subarray(endOf(last)))
  try {
    // Looking for records takes milliseconds, which each short command of an agent would pay.
    if (!isWiped) checkNothingAfter(ring, following.at(-1) ?? last, opener, path)
    // Another record follows a `direct` one only when the database has its turn.
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

/** The ring that the database has noted. */
export function notedRing(database: Database): NotedRing {
  const found = database.prepare<NotedRing>('SELECT size, number, place, tag FROM ring').get()
  if (found === undefined) throw new StaticError('store_corrupt', "The agent's database has no position in the ring.")
  return found
}

/** For a ring that does not match the database: one of them is an old copy. */
export function ringFromAnotherTime(path: string): StaticError {
  return oldCopyError(
    `${path} is missing, damaged or does not match the agent's database: one of them may be an old copy.`,
  )
}

/** Wipes decrypted changes: they hold keys. */
export function wipeChanges(records: readonly RingRecord[]): void {
  for (const { changes } of records) changes.fill(0)
}

function endOf({ place, size }: RingRecord): number {
  return place + size
}

/** Only a torn record may come after the last: with an intact one behind it, it was acknowledged. */
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
