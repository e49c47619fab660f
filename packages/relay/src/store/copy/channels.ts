/**
 * Reads channels with their logs, senders and foundings. Every entry is checked against the hash chain, from the start
 * of the log to its end. Rows that a killed relay left behind the log are brought up to date: PostgreSQL has no such
 * rows.
 */
import { hash } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { type Hash, toHex } from '@static/protocol'
import type { Position } from '../../ports.ts'
import { type Value, damaged, intact, sealed } from '../checksum.ts'
import { senderOf } from '../ledger/context.ts'
import { ENTRY_OVERHEAD } from '../ledger/rows/log.ts'
import { type Channel, emptyChannel } from '../ledger/state.ts'
import { type ChannelRow, channelRow, readChannel } from '../records/channel.ts'
import { isEqual, readEntry } from '../records/entry.ts'
import { type SenderRow, readSender, senderRow } from '../records/sender.ts'
import { entryKey } from '../sqlite/tables/keys.ts'
import { follow } from '../sqlite/tables/late-rows.ts'
import { type Statements, iterate, prepareStatements } from '../sqlite/statements.ts'
import type { CopiedRow } from './piece.ts'

/**
 * The retention of the relay that will sweep the copy is unknown here. Zero makes its first sweep visit every channel
 * and set the right time.
 */
const ENTRY_MS = 0
/** Takes the place of an index once the whole channel is stored. */
const WHOLE = null

const sha256: Hash = (bytes) => hash('sha256', bytes, 'buffer')

/** Rows that are stored together, and their key: the channel's number, and the index of the entry or `WHOLE`. */
type Part = readonly [rows: readonly CopiedRow[], key: readonly Value[]]

/** Everything of the channels after a key. Throws `store_corrupt` if anything is damaged. */
export function* readChannels(db: DatabaseSync, numbers: readonly number[], key: readonly Value[]): Iterable<Part> {
  const [after = 0, index = WHOLE] = key as [number?, (number | null)?]
  const statements = prepareStatements(db)
  for (const number of numbers) {
    if (number < after || (number === after && index === WHOLE)) continue
    yield* readOne(statements, number, number === after ? (index ?? 0) : 0)
  }
}

/** A channel, except for entries that were already copied: these are read only to check the chain. */
function* readOne(statements: Statements, number: number, copied: number): Iterable<Part> {
  const channel = load(statements, number)
  const { base } = channel
  const stored = channel.last
  let previous: Position = base
  checkEnd(channel, stored, previous)
  for (const row of iterate(statements.entries, entryKey(number, base.index), entryKey(number + 1, 0) - 1n)) {
    const { entry, position, size } = readEntry(sha256, previous, row)
    previous = position
    checkEnd(channel, stored, previous)
    if (entry.index > stored.index) {
      follow(channel, senderOf(channel, entry.sender), entry, size + ENTRY_OVERHEAD, ENTRY_MS)
    }
    if (entry.index <= copied) continue
    yield [[{ table: 'entries', values: [number, ...(row as readonly Value[])] }], [number, entry.index]]
  }
  if (previous.index < stored.index) throw damaged(`channel ${channel.id} has no entry ${previous.index + 1}`)
  const founding = intact(statements.founding.get(number), `the founding of channel ${channel.id}`) as [Uint8Array]
  const senders = [...channel.senders.values()].map((sender): CopiedRow => {
    return { table: 'senders', values: [number, ...sealed(senderRow(sender))] }
  })
  yield [
    [
      { table: 'channels', values: [number, ...sealed(channelRow(channel))] },
      { table: 'foundings', values: [number, ...sealed(founding)] },
      ...senders,
    ],
    [number, WHOLE],
  ]
}

function load(statements: Statements, number: number): Channel {
  const [id] = (statements.idOf.get(number) ?? []) as unknown as [Uint8Array?]
  const row = id && (statements.channel.get(id) as unknown as [number, ...Value[]] | undefined)
  if (!id || !row) throw damaged(`channel number ${number}`)
  const fields = readChannel(number, intact(row.slice(1), `channel ${toHex(id)}`) as ChannelRow)
  const channel = emptyChannel(fields)
  for (const each of statements.senders.all(number)) {
    const sender = readSender(intact(each, `a sender of channel ${fields.id}`) as SenderRow)
    channel.senders.set(sender.agent, sender)
  }
  return channel
}

/** The channel's row must match the log at the position where it says the log ended. */
function checkEnd({ id }: Channel, stored: Position, position: Position): void {
  if (position.index !== stored.index) return
  if (position.slot !== stored.slot || !isEqual(position.hash, stored.hash)) throw damaged(`the end of channel ${id}`)
}
