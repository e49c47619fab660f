/**
 * The rows that every message changes, for the one statement that stores them. Each kind lists its columns once: the
 * types of its rows, their place in the parameters and the SQL that reads them from there follow from the list.
 */
import type { Time } from '../../ports.ts'
import type { ChangingColumns } from '../records/channel.ts'
import type { HeaderRow } from '../records/entry.ts'
import type { SenderRow } from '../records/sender.ts'
import { Blob } from './write.ts'

export type HotChannel = readonly [number: number, version: number, ...ChangingColumns, checksum: number]
export type HotEntry = readonly [channel: number, ...HeaderRow, checksum: number, body: Uint8Array]
export type HotId = readonly [channel: number, key: Uint8Array, entry: number, head: number, at: Time, checksum: number]
export type HotSender = readonly [channel: number, ...SenderRow, checksum: number]
type HotRow = readonly (number | null | Uint8Array)[]

/** How a column is passed: a number, a number or null, the offset of 32 bytes, or the offset and length of some bytes. */
type ColumnType = 'number' | 'nullable' | 'hash' | 'bytes'
type TypeOf<Value> = Value extends Uint8Array ? 'hash' | 'bytes' : 'number'
type ColumnsOf<Row extends HotRow> = {
  readonly [At in keyof Row]: readonly [name: string, type: null extends Row[At] ? 'nullable' : TypeOf<Row[At]>]
}

/** Stands for null: with real nulls, PostgreSQL would have to walk through the array to find an element. */
const NONE: number = Number.MIN_SAFE_INTEGER

/** The columns of a table, in the order of their values. */
class HotColumns<Row extends HotRow> {
  /** How many numbers a row takes. */
  readonly width: number
  readonly #types: readonly ColumnType[]
  readonly #sql = new Map<string, string>()

  constructor(columns: ColumnsOf<Row>) {
    const list: readonly (readonly [string, ColumnType])[] = columns
    this.#types = list.map(([, type]) => type)
    let width = 0
    for (const [name, type] of list) {
      this.#sql.set(name, sqlOf(type, width + 1))
      width += type === 'bytes' ? 2 : 1
    }
    this.width = width
  }

  /** SQL for a column of the row that starts after offset `o`. */
  at(name: string): string {
    const sql = this.#sql.get(name)
    if (sql === undefined) throw new Error(`there is no column ${name}`)
    return sql
  }

  /** SQL for all columns, in order. */
  all(): string {
    return [...this.#sql.values()].join(', ')
  }

  /** SQL that assigns to each column but the first ones. */
  assign(skipped: number, valueOf: (name: string) => string = (name) => this.at(name)): string {
    const names = [...this.#sql.keys()].slice(skipped)
    return names.map((name) => `${name} = ${valueOf(name)}`).join(', ')
  }

  /** Adds rows to the parameters. */
  put({ blob, numbers }: HotParameters, rows: readonly Row[]): void {
    for (const row of rows) {
      numbers.reserve(this.width)
      for (const [at, value] of row.entries()) {
        const isBytes = value instanceof Uint8Array
        numbers.add(isBytes ? blob.put(value) : value)
        if (isBytes && this.#types[at] === 'bytes') numbers.add(value.length)
      }
    }
  }
}

export const HOT_CHANNELS: HotColumns<HotChannel> = new HotColumns<HotChannel>([
  ['number', 'number'],
  ['version', 'number'],
  ['last_index', 'number'],
  ['last_hash', 'hash'],
  ['head', 'number'],
  ['last_at', 'number'],
  ['base_index', 'number'],
  ['base_hash', 'hash'],
  ['base_slot', 'number'],
  ['bytes', 'number'],
  ['oldest_at', 'nullable'],
  ['guest_day', 'number'],
  ['guest_count', 'number'],
  ['unvouched_bytes', 'number'],
  ['settled', 'number'],
  ['first_slot', 'number'],
  ['slot_at', 'nullable'],
  ['hour', 'number'],
  ['adds', 'number'],
  ['commit_bytes', 'number'],
  ['due', 'nullable'],
  ['checksum', 'number'],
])
export const HOT_ENTRIES: HotColumns<HotEntry> = new HotColumns<HotEntry>([
  ['channel', 'number'],
  ['index', 'number'],
  ['kind', 'number'],
  ['slot', 'number'],
  ['at', 'number'],
  ['counter', 'number'],
  ['control', 'number'],
  ['sender', 'hash'],
  ['message_id', 'bytes'],
  ['hash', 'hash'],
  ['checksum', 'number'],
  ['body', 'bytes'],
])
export const HOT_IDS: HotColumns<HotId> = new HotColumns<HotId>([
  ['channel', 'number'],
  ['key', 'bytes'],
  ['entry', 'number'],
  ['head', 'number'],
  ['at', 'number'],
  ['checksum', 'number'],
])
export const HOT_SENDERS: HotColumns<HotSender> = new HotColumns<HotSender>([
  ['channel', 'number'],
  ['agent', 'hash'],
  ['counter', 'number'],
  ['barred', 'number'],
  ['acted', 'number'],
  ['seen', 'number'],
  ['hour', 'number'],
  ['free', 'number'],
  ['commit_bytes', 'number'],
  ['bytes', 'number'],
  ['entries', 'number'],
  ['checksum', 'number'],
])

const INT8 = 20
const ARRAY_HEADER_BYTES = 20
const ELEMENT_BYTES = 12
/** Enough for a few messages. */
const FIRST_BYTES = 4096

/**
 * Numbers for one parameter, an array of `bigint` in binary form: PostgreSQL sets up a function for each array that it
 * unnests, which takes longer than storing a row.
 */
class Numbers {
  #bytes = new DataView(new ArrayBuffer(FIRST_BYTES))
  #length = 0

  /** Number of values so far. */
  get length(): number {
    return this.#length
  }

  /** Makes room for values. */
  reserve(count: number): void {
    if (ARRAY_HEADER_BYTES + ELEMENT_BYTES * (this.#length + count) > this.#bytes.byteLength) this.#grow()
  }

  add(value: number | null): void {
    const number = value ?? NONE
    const at = ARRAY_HEADER_BYTES + ELEMENT_BYTES * this.#length
    this.#bytes.setInt32(at, 8)
    this.#bytes.setInt32(at + 4, Math.floor(number / 2 ** 32))
    this.#bytes.setInt32(at + 8, number)
    this.#length += 1
  }

  finish(): Buffer {
    // Dimensions, whether there are nulls, the type of elements, their number, and the first index.
    for (const [at, field] of [1, 0, INT8, this.#length, 1].entries()) this.#bytes.setInt32(4 * at, field)
    return Buffer.from(this.#bytes.buffer, 0, ARRAY_HEADER_BYTES + ELEMENT_BYTES * this.#length)
  }

  #grow(): void {
    const larger = new Uint8Array(2 * this.#bytes.byteLength)
    larger.set(new Uint8Array(this.#bytes.buffer))
    this.#bytes = new DataView(larger.buffer)
  }
}

/** The first two parameters of the statement: all bytes, and all numbers, row after row. */
export class HotParameters {
  readonly blob: Blob = new Blob()
  readonly numbers: Numbers = new Numbers()

  finish(): readonly [Buffer, Buffer] {
    return [this.blob.finish(), this.numbers.finish()]
  }
}

/** SQL for a column, counted from 1. */
function sqlOf(type: ColumnType, column: number): string {
  const number = `($2::bigint[])[o + ${column}]`
  if (type === 'nullable') return `nullif(${number}, ${NONE})`
  if (type === 'hash') return `substr($1::bytea, ${number}::int, 32)`
  return type === 'bytes' ? `substr($1::bytea, ${number}::int, ($2::bigint[])[o + ${column + 1}]::int)` : number
}
