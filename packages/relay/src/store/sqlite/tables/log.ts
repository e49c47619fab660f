/** Entries in SQLite. */
import { fromHex, type Hash, toHex } from '@static/protocol'
import type { Entry, Position } from '../../../ports.ts'
import { checksum, damaged } from '../../checksum.ts'
import { ENTRY_OVERHEAD, type LogRows, type Weight } from '../../ledger/rows/log.ts'
import type { Channel } from '../../ledger/state.ts'
import { headerRow, readEntry, readPosition } from '../../records/entry.ts'
import { type Statements, iterate } from '../statements.ts'
import type { SqliteChannelRows } from './channels.ts'
import { entryKey } from './keys.ts'

/** The entries of an open database. */
export class SqliteLogRows implements LogRows {
  readonly #statements: Statements
  readonly #hash: Hash
  readonly #channels: SqliteChannelRows
  #sequence: number

  constructor(statements: Statements, hash: Hash, channels: SqliteChannelRows, sequence: number) {
    this.#statements = statements
    this.#hash = hash
    this.#channels = channels
    this.#sequence = sequence
  }

  /** Entries are numbered in the order of their arrival; the number of the last one. */
  get sequence(): number {
    return this.#sequence
  }

  add(channel: Channel, entry: Entry, body: Uint8Array): void {
    const sender = channel.senders.get(entry.sender)?.agentBytes ?? fromHex(entry.sender)
    const header = headerRow(entry, sender)
    const [index, ...columns] = header
    this.#sequence += 1
    const place = [this.#sequence, entryKey(channel.number, index)] as const
    this.#statements.addEntry.run(...place, ...columns, checksum(header), body)
    this.#channels.logged(channel, entry, body.length + ENTRY_OVERHEAD)
  }

  *entries({ number, id }: Channel, after: Position, through: number): Iterable<Entry> {
    let previous = after
    for (const row of iterate(this.#statements.entries, entryKey(number, after.index), entryKey(number, through))) {
      const { entry, position } = readEntry(this.#hash, previous, row)
      previous = position
      yield entry
    }
    if (previous.index < through) throw damaged(`channel ${id} has no entry ${previous.index + 1}`)
  }

  *weights({ number }: Channel, after: number, through: number): Iterable<Weight> {
    const rows = iterate(this.#statements.weights, entryKey(number, after), entryKey(number, through))
    for (const row of rows) {
      const [index, sender, length, at] = row as [number, Uint8Array, number, number]
      yield { index, sender: toHex(sender), size: length + ENTRY_OVERHEAD, at }
    }
  }

  position({ number }: Channel, index: number): Position {
    return readPosition(this.#statements.position.get(entryKey(number, index)), index)
  }

  cut({ number }: Channel, through: number): void {
    this.#statements.cut.run(entryKey(number, 0), entryKey(number, through))
  }
}
