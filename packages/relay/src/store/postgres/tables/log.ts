/** Entries in PostgreSQL: fetched in ranges, checked against their checksums and the hash chain. */
import { type Hash, fromHex, toHex } from '@static/protocol'
import type { Entry, Position } from '../../../ports.ts'
import { checksum, damaged } from '../../checksum.ts'
import { ENTRY_OVERHEAD, type LogRows, type Weight } from '../../ledger/rows/log.ts'
import type { Channel } from '../../ledger/state.ts'
import { type HeaderRow, headerRow, readEntry, readPosition } from '../../records/entry.ts'
import type { Proof } from '../doubt.ts'
import { Missing, type Table } from '../facts.ts'
import type { HotEntry } from '../hot-rows.ts'
import { type Row, statement } from '../session.ts'
import { type Transaction, ask, send } from '../write.ts'

const HEADER = 'index, kind, slot, at, counter, control, sender, message_id, hash, checksum'
const HEADERS = statement(`SELECT ${HEADER}, octet_length(body)::bigint FROM entries
  WHERE channel = $1 AND index >= $2 ORDER BY index LIMIT $3`)
// With bodies, up to a number of bytes, but at least one entry.
const BODIES = statement(`SELECT ${HEADER}, body FROM (
    SELECT *, sum(octet_length(body)) OVER (ORDER BY index) - octet_length(body) AS before FROM (
      SELECT * FROM entries WHERE channel = $1 AND index >= $2 ORDER BY index LIMIT $3) page) total
  WHERE before < $4 ORDER BY index`)
const CUT = statement('DELETE FROM entries WHERE channel = $1 AND index <= $2')

/** How much is fetched at a time. */
const FETCHED_HEADERS = 4200
const FETCHED_BODIES = 256
const FETCHED_BYTES = 524_288

/** An entry that the batch appends. */
interface Appended {
  readonly channel: Channel
  readonly header: HeaderRow
  readonly body: Uint8Array
}

/** The parts of entries that were fetched or appended, by index. */
class Range {
  readonly headers = new Map<number, { readonly row: Row; readonly size: number }>()
  readonly bodies = new Map<number, Row>()
  readonly appended = new Map<number, Appended>()
}

/** The logs of a transaction's channels. */
export class LogTable implements LogRows, Table {
  readonly #transaction: Transaction
  readonly #hash: Hash
  /** By channel number. */
  readonly #ranges = new Map<number, Range>()
  readonly #cuts = new Map<number, number>()

  constructor(transaction: Transaction, hash: Hash) {
    this.#transaction = transaction
    this.#hash = hash
  }

  begin(): void {
    this.#ranges.clear()
    this.#cuts.clear()
  }

  rewind(): void {
    for (const { appended } of this.#ranges.values()) appended.clear()
    this.#cuts.clear()
  }

  add(channel: Channel, entry: Entry, body: Uint8Array): void {
    const sender = channel.senders.get(entry.sender)?.agentBytes ?? fromHex(entry.sender)
    this.#range(channel).appended.set(entry.index, { channel, header: headerRow(entry, sender), body })
  }

  *entries(channel: Channel, after: Position, through: number): Iterable<Entry> {
    let previous = after
    while (previous.index < through) {
      const { entry, position } = readEntry(this.#hash, previous, this.#body(channel, previous.index + 1))
      previous = position
      yield entry
    }
  }

  *weights(channel: Channel, after: number, through: number): Iterable<Weight> {
    const end = Math.min(through, channel.last.index)
    for (let index = Math.max(after, channel.base.index) + 1; index <= end; index++) {
      const appended = this.#range(channel).appended.get(index)
      const [row, size] = appended ? [appended.header, appended.body.length] : this.#header(channel, index, end)
      yield { index, sender: toHex(row[6] as Uint8Array), size: size + ENTRY_OVERHEAD, at: row[3] as number }
    }
  }

  position(channel: Channel, index: number): Position {
    const appended = this.#range(channel).appended.get(index)
    if (appended) return readPosition([...appended.header, checksum(appended.header)], index)
    return readPosition(this.#header(channel, index, index)[0], index)
  }

  cut({ number }: Channel, through: number): void {
    this.#cuts.set(number, through)
  }

  /** Whether the log ends where the channel's record says. */
  isEnd({ last, base, number }: Pick<Channel, 'last' | 'base' | 'number'>, row: Row | undefined): boolean {
    if (last.index === base.index) return last.slot === base.slot && Buffer.compare(last.hash, base.hash) === 0
    const [at, ...header] = row ?? []
    if (at !== number) return false
    const end = readPosition(header, last.index)
    return end.slot === last.slot && Buffer.compare(end.hash, last.hash) === 0
  }

  /** Reads headers of a channel from its start. */
  async fetchFirst(channel: Channel, count: number): Promise<void> {
    const { base, last } = channel
    if (last.index > base.index) await this.#fetchHeaders(channel, base.index + 1, base.index + count)
  }

  /** One of the entries that the batch stores; undefined if it stores none. */
  proof(isLive: (channel: Channel) => boolean): Proof | undefined {
    for (const { appended } of this.#ranges.values()) {
      for (const { channel, header } of appended.values()) {
        const [index] = header
        const isStored = isLive(channel) && index > (this.#cuts.get(channel.number) ?? 0)
        if (isStored) return { channel: channel.number, index, stamp: this.#transaction.stamp }
      }
    }
    return undefined
  }

  write(): void {
    for (const [number, through] of this.#cuts) send(this.#transaction, CUT, [number, through])
  }

  /** The rows of the appended entries. */
  rows(isLive: (channel: Channel) => boolean): readonly HotEntry[] {
    const all = [...this.#ranges.values()].flatMap(({ appended }) => [...appended.values()])
    return all
      .filter(({ channel, header: [index] }) => isLive(channel) && index > (this.#cuts.get(channel.number) ?? 0))
      .map(({ channel, header, body }) => [channel.number, ...header, checksum(header), body])
  }

  #range({ number }: Pick<Channel, 'number'>): Range {
    const range = this.#ranges.get(number) ?? new Range()
    this.#ranges.set(number, range)
    return range
  }

  #header(channel: Channel, index: number, through: number): readonly [Row, number] {
    const known = this.#range(channel).headers.get(index)
    if (!known) throw new Missing(() => this.#fetchHeaders(channel, index, through))
    return [known.row, known.size]
  }

  #body(channel: Channel, index: number): Row {
    const { appended, bodies } = this.#range(channel)
    const own = appended.get(index)
    if (own) return [...own.header, checksum(own.header), own.body]
    const row = bodies.get(index)
    if (!row) throw new Missing(() => this.#fetchBodies(channel, index))
    return row
  }

  /** Fetches headers from `index` on, up to `through` if that is not too many. */
  async #fetchHeaders(channel: Channel, index: number, through: number): Promise<void> {
    const { headers } = this.#range(channel)
    const count = Math.min(FETCHED_HEADERS, through - index + 1)
    const rows = await ask(this.#transaction, HEADERS, [channel.number, index, count])
    for (const row of rows) headers.set(row[0] as number, { row: row.slice(0, -1), size: row.at(-1) as number })
    if (!headers.has(index)) throw damaged(`channel ${channel.id} has no entry ${index}`)
  }

  async #fetchBodies(channel: Channel, index: number): Promise<void> {
    const { bodies } = this.#range(channel)
    const rows = await ask(this.#transaction, BODIES, [channel.number, index, FETCHED_BODIES, FETCHED_BYTES])
    for (const row of rows) bodies.set(row[0] as number, row)
    if (!bodies.has(index)) throw damaged(`channel ${channel.id} has no entry ${index}`)
  }
}
