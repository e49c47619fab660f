/**
 * Changes of rows as bytes, for a record of the ring (ring/record.ts). A change consists of its kind, the number of its
 * table, and values: for a put, all columns in order; for a drop, the first parts of a key; for a change, the whole key
 * and then the fields, whose numbers come first.
 *
 *     kind 1 | table 1 | [ fields 1 | field 1 × fields ] | values 1 | value × values
 *
 * A value is a type and its content: a number as a double; text and bytes with a length of four bytes. Integers are
 * little-endian. The bytes are read only after they are authenticated, so the reader does not expect damage.
 */
import { StaticError } from '@static/protocol'
import { utf8Text, viewOf, writeUtf8 } from '../../platform/bytes.ts'
import type { Value } from '../sqlite.ts'

export type RowChangeKind = 'put' | 'change' | 'drop'

export interface RowChange {
  readonly kind: RowChangeKind
  /** Number of the table in TABLES. */
  readonly table: number
  /** Numbers of the columns of a `change`. */
  readonly fields: readonly number[]
  readonly values: readonly Value[]
}

const KINDS: readonly RowChangeKind[] = ['put', 'change', 'drop']
const [NULL, NUMBER, TEXT, BYTES] = [0, 1, 2, 3]
/** The size of a turn with a window of 1 KiB messages. */
const USUAL_BYTES = 128 * 1024
/** The maximum bytes in UTF-8 for one UTF-16 character. */
const UTF8_WIDTH = 3

/** Writes changes one after the other into a reused buffer. */
export class RowChangeWriter {
  #buffer = new Uint8Array(USUAL_BYTES)
  #view = viewOf(this.#buffer)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** The written bytes. Valid until the next change. */
  get bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.#length)
  }

  byte(value: number): void {
    this.#reserve(1)
    this.#buffer[this.#length++] = value
  }

  write(change: RowChange): void {
    this.byte(KINDS.indexOf(change.kind))
    this.byte(change.table)
    if (change.kind === 'change') {
      this.byte(change.fields.length)
      for (const field of change.fields) this.byte(field)
    }
    this.byte(change.values.length)
    for (const value of change.values) this.#value(value)
  }

  /** Wipes the written bytes and starts over. */
  clear(): void {
    this.#buffer.fill(0, 0, this.#length)
    this.#length = 0
    // After an unusual turn, its memory is released.
    if (this.#buffer.length > 8 * USUAL_BYTES) this.#use(new Uint8Array(USUAL_BYTES))
  }

  #value(value: Value): void {
    if (value === null) this.byte(NULL)
    else if (typeof value === 'number') {
      // A value that the database would refuse must not get into the ring, where it would be refused at every start.
      if (!Number.isSafeInteger(value)) throw new StaticError('internal_error', `${value} is not a whole number.`)
      this.byte(NUMBER)
      this.#reserve(8)
      this.#view.setFloat64(this.#length, value, true)
      this.#length += 8
    } else if (typeof value === 'string') {
      this.byte(TEXT)
      this.#reserve(4 + UTF8_WIDTH * value.length)
      const written = writeUtf8(this.#buffer, this.#length + 4, value)
      this.#view.setUint32(this.#length, written, true)
      this.#length += 4 + written
    } else {
      this.byte(BYTES)
      this.#reserve(4 + value.length)
      this.#view.setUint32(this.#length, value.length, true)
      this.#buffer.set(value, this.#length + 4)
      this.#length += 4 + value.length
    }
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#buffer.length) return
    const larger = new Uint8Array(2 * (this.#length + bytes))
    larger.set(this.bytes)
    this.#buffer.fill(0)
    this.#use(larger)
  }

  #use(buffer: Uint8Array<ArrayBuffer>): void {
    this.#buffer = buffer
    this.#view = viewOf(buffer)
  }
}

/** The change at an offset, and the offset after it. Its bytes are views. */
export function readRowChange(bytes: Uint8Array, start: number): { readonly change: RowChange; readonly end: number } {
  const view = viewOf(bytes)
  let at = start
  const byte = (): number => view.getUint8(at++)
  const kind = KINDS[byte()] ?? 'put'
  const table = byte()
  const fields = kind === 'change' ? Array.from({ length: byte() }, byte) : []
  const count = byte()
  const values: Value[] = []
  for (let n = 0; n < count; n++) {
    const type = byte()
    if (type === NULL) values.push(null)
    else if (type === NUMBER) {
      values.push(view.getFloat64(at, true))
      at += 8
    } else {
      const from = at + 4
      at = from + view.getUint32(at, true)
      values.push(type === TEXT ? utf8Text(bytes.subarray(from, at)) : bytes.subarray(from, at))
    }
  }
  return { change: { kind, table, fields, values }, end: at }
}
