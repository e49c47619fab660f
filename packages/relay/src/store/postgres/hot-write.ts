/** The one statement that stores messages: their entries, ids, channels and senders. */
import type { Channel } from '../ledger/state.ts'
import { statement } from './session.ts'
import { type ChannelChanges, hotRows } from './tables/channel-writes.ts'
import type { IdTable } from './tables/ids.ts'
import type { LogTable } from './tables/log.ts'
import { Blob, Numbers, type Transaction, ask, nullableAt, numberAt, send } from './write.ts'

const CHANNEL_COLUMNS = 21
const ENTRY_COLUMNS = 14
const ID_COLUMNS = 7
const SENDER_COLUMNS = 12

/** The offsets of the rows of a kind: one kind follows the other, and `$3` to `$6` say where each ends. */
const CHANNELS = `generate_series(0, $3::int - 1, ${CHANNEL_COLUMNS}) o`
const ENTRIES = `generate_series($3::int, $4::int - 1, ${ENTRY_COLUMNS}) o`
const IDS = `generate_series($4::int, $5::int - 1, ${ID_COLUMNS}) o`
const SENDERS = `generate_series($5::int, $6::int - 1, ${SENDER_COLUMNS}) o`

/** Bytes in `$1`, whose offset is in a column; with their length in another one. */
const hashAt = (column: number): string => `substr($1::bytea, ${numberAt(column)}::int, 32)`
const bytesAt = (column: number, length: number): string =>
  `substr($1::bytea, ${numberAt(column)}::int, ${numberAt(length)}::int)`

/**
 * Locks the channels in the order that all nodes lock them in, and looks whether nothing has changed since the versions
 * that the batch was decided on. What was committed before that version is in the snapshot of the statement, so an id
 * that it does not find is new.
 */
const IS_CURRENT = `locked AS MATERIALIZED (SELECT c.number FROM ${CHANNELS}
      JOIN channels c ON c.number = ${numberAt(1)} AND c.version = ${numberAt(2)} ORDER BY c.id FOR UPDATE OF c),
  guard AS MATERIALIZED (SELECT (SELECT count(*) FROM locked) * ${CHANNEL_COLUMNS} = $3
      AND NOT EXISTS (SELECT FROM ${IDS} JOIN ids i ON i.key = ${bytesAt(2, 3)} AND i.channel = ${numberAt(1)})
      AS is_current),`

const WRITE = statement(writing('', 'true'))
const WRITE_IF_CURRENT = statement(writing(IS_CURRENT, '(SELECT is_current FROM guard)'))

function writing(guard: string, condition: string): string {
  return `WITH ${guard}
  c AS (UPDATE channels SET last_index = ${numberAt(3)}, last_hash = ${hashAt(4)}, head = ${numberAt(5)},
      base_index = ${numberAt(6)}, base_hash = ${hashAt(7)}, base_slot = ${numberAt(8)}, bytes = ${numberAt(9)},
      oldest_at = ${nullableAt(10)}, guest_day = ${numberAt(11)}, guest_count = ${numberAt(12)},
      unvouched_bytes = ${numberAt(13)}, settled = ${numberAt(14)}, first_slot = ${numberAt(15)},
      slot_at = ${nullableAt(16)}, hour = ${numberAt(17)}, adds = ${numberAt(18)}, commit_bytes = ${numberAt(19)},
      due = ${nullableAt(20)}, checksum = ${numberAt(21)}, version = version + 1
    FROM ${CHANNELS} WHERE ${condition} AND channels.number = ${numberAt(1)}),
  e AS (INSERT INTO entries SELECT ${numberAt(1)}, ${numberAt(2)}, ${numberAt(3)}, ${numberAt(4)}, ${numberAt(5)},
      ${numberAt(6)}, ${numberAt(7)}, ${hashAt(8)}, ${bytesAt(9, 10)}, ${hashAt(11)}, ${numberAt(12)}, ${bytesAt(13, 14)},
      $7::bigint
    FROM ${ENTRIES} WHERE ${condition}),
  i AS (INSERT INTO ids SELECT ${numberAt(1)}, ${bytesAt(2, 3)}, ${numberAt(4)}, ${numberAt(5)}, ${numberAt(6)},
      ${numberAt(7)}
    FROM ${IDS} WHERE ${condition}),
  s AS (INSERT INTO senders SELECT ${numberAt(1)}, ${hashAt(2)}, ${numberAt(3)}, ${numberAt(4)}, ${numberAt(5)},
      ${numberAt(6)}, ${numberAt(7)}, ${numberAt(8)}, ${numberAt(9)}, ${numberAt(10)}, ${numberAt(11)}, ${numberAt(12)}
    FROM ${SENDERS} WHERE ${condition}
    ON CONFLICT (channel, agent) DO UPDATE SET counter = excluded.counter, barred = excluded.barred,
      acted = excluded.acted, seen = excluded.seen, hour = excluded.hour, free = excluded.free,
      commit_bytes = excluded.commit_bytes, bytes = excluded.bytes, entries = excluded.entries,
      checksum = excluded.checksum)
  SELECT ${condition}`
}

/** What the statement stores. */
export interface HotTables {
  readonly log: LogTable
  readonly ids: IdTable
  readonly channels: { readonly changes: ChannelChanges; versionOf(channel: Channel): number }
}

/** Sends it, if there is anything to store. */
export function writeHot(transaction: Transaction, tables: HotTables): void {
  const { values } = valuesOf(transaction, tables)
  if (values) send(transaction, WRITE, values)
}

/**
 * Stores `count` messages and commits, in one round trip, if nothing has changed since the batch was decided on. Returns
 * whether it did; if not, nothing is stored. Also if the batch has fewer messages: then some were refused.
 */
export async function writeIfCurrent(transaction: Transaction, tables: HotTables, count: number): Promise<boolean> {
  const { values, entries } = valuesOf(transaction, tables)
  if (!values || entries !== count) return false
  const [row] = await ask(transaction, WRITE_IF_CURRENT, values)
  return row?.[0] === true
}

function valuesOf(
  { stamp }: Transaction,
  { channels, log, ids }: HotTables,
): { readonly values: readonly unknown[] | undefined; readonly entries: number } {
  const { changes } = channels
  const blob = new Blob()
  const numbers = new Numbers()
  const isLive = ({ number }: Channel): boolean => !changes.dropped.has(number)
  const hot = hotRows(blob, changes, (channel) => channels.versionOf(channel))
  const entries = log.rows(blob, isLive)
  const ends = [hot.channels, entries, ids.rows(blob, isLive), hot.senders].map((rows) => {
    for (const row of rows) numbers.add(row)
    return numbers.length
  })
  const values = numbers.length === 0 ? undefined : [blob.finish(), numbers.finish(), ...ends, stamp]
  return { values, entries: entries.length }
}
