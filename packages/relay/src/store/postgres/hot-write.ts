/** The one statement that stores messages: their entries, ids, channels and senders. */
import type { Channel } from '../ledger/state.ts'
import { HOT_CHANNELS, HOT_ENTRIES, HOT_IDS, HOT_SENDERS, HotParameters } from './hot-rows.ts'
import { statement } from './session.ts'
import { type ChannelChanges, hotRows } from './tables/channel-writes.ts'
import type { IdTable } from './tables/ids.ts'
import type { LogTable } from './tables/log.ts'
import { type Transaction, ask, send } from './write.ts'

/** The offsets of the rows of a kind: one kind follows the other, and `$3` to `$6` say where each ends. */
const CHANNELS = `generate_series(0, $3::int - 1, ${HOT_CHANNELS.width}) o`
const ENTRIES = `generate_series($3::int, $4::int - 1, ${HOT_ENTRIES.width}) o`
const IDS = `generate_series($4::int, $5::int - 1, ${HOT_IDS.width}) o`
const SENDERS = `generate_series($5::int, $6::int - 1, ${HOT_SENDERS.width}) o`

/**
 * Locks the channels in the order that all nodes lock them in, and checks that nothing has changed since the versions
 * that the batch was decided on. The statement's snapshot contains everything committed before that version, so an
 * id that it does not find is new.
 */
const IS_CURRENT = `locked AS MATERIALIZED (SELECT c.number FROM ${CHANNELS}
      JOIN channels c ON c.number = ${HOT_CHANNELS.at('number')} AND c.version = ${HOT_CHANNELS.at('version')}
      ORDER BY c.id FOR UPDATE OF c),
  guard AS MATERIALIZED (SELECT (SELECT count(*) FROM locked) * ${HOT_CHANNELS.width} = $3
      AND NOT EXISTS (SELECT FROM ${IDS}
        JOIN ids i ON i.key = ${HOT_IDS.at('key')} AND i.channel = ${HOT_IDS.at('channel')})
      AS is_current),`

const WRITE = statement(writing('', 'true'))
const WRITE_IF_CURRENT = statement(writing(IS_CURRENT, '(SELECT is_current FROM guard)'))

function writing(guard: string, condition: string): string {
  return `WITH ${guard}
  c AS (UPDATE channels SET ${HOT_CHANNELS.assign(2)}, version = version + 1
    FROM ${CHANNELS} WHERE ${condition} AND channels.number = ${HOT_CHANNELS.at('number')}),
  e AS (INSERT INTO entries SELECT ${HOT_ENTRIES.all()}, $7::bigint FROM ${ENTRIES} WHERE ${condition}),
  i AS (INSERT INTO ids SELECT ${HOT_IDS.all()} FROM ${IDS} WHERE ${condition}),
  s AS (INSERT INTO senders SELECT ${HOT_SENDERS.all()} FROM ${SENDERS} WHERE ${condition}
    ON CONFLICT (channel, agent) DO UPDATE SET ${HOT_SENDERS.assign(2, (name) => `excluded.${name}`)})
  SELECT ${condition}`
}

/** The tables whose rows the statement stores. */
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
 * Stores `count` messages and commits, in one round trip, if nothing has changed since the batch was decided on.
 * Returns whether it did; if not, nothing is stored. A batch with fewer messages is not stored either: some were
 * refused.
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
  const parameters = new HotParameters()
  const { numbers } = parameters
  const isLive = ({ number }: Channel): boolean => !changes.dropped.has(number)
  const hot = hotRows(changes, (channel) => channels.versionOf(channel))
  const entries = log.rows(isLive)
  const ends = [
    () => HOT_CHANNELS.put(parameters, hot.channels),
    () => HOT_ENTRIES.put(parameters, entries),
    () => HOT_IDS.put(parameters, ids.rows(isLive)),
    () => HOT_SENDERS.put(parameters, hot.senders),
  ].map((put) => {
    put()
    return numbers.length
  })
  const values = numbers.length === 0 ? undefined : [...parameters.finish(), ...ends, stamp]
  return { values, entries: entries.length }
}
