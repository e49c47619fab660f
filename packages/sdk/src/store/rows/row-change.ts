/**
 * Changes of rows as bytes, for a record of the ring (ring/record.ts). A change is a kind, the number of its table and
 * values: of a put all columns in order, of a drop the first parts of a key, of a change the whole key and then the
 * fields, whose numbers come before.
 *
 *     kind 1 | table 1 | [ fields 1 | field 1 × fields ] | values 1 | value × values
 *
 * A value is a type and its content: a number as a double; text and bytes with a length of four bytes. Integers are
 * little-endian. The bytes are only read after they were authenticated, so the reader does not expect damage.
 */
import { StaticError } from '@static/protocol'
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
/** A turn with a window of messages of 1 KiB. */
const USUAL_BYTES = 128 * 1024
/** The most bytes that a character of UTF-16 takes in UTF-8. */
const UTF8_WIDTH = 3

/** Writes changes one after the other into a buffer that is reused. */
export class RowChangeWriter {
  #buffer: Buffer = Buffer.allocUnsafeSlow(USUAL_BYTES)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** What was written. Valid until the next change. */
  get bytes(): Buffer {
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

  /** Wipes what was written and begins again. */
  clear(): void {
    this.#buffer.fill(0, 0, this.#length)
    this.#length = 0
    // After an unusual turn, its memory is given back.
    if (this.#buffer.length > 8 * USUAL_BYTES) this.#buffer = Buffer.allocUnsafeSlow(USUAL_BYTES)
  }

  #value(value: Value): void {
    if (value === null) this.byte(NULL)
    else if (typeof value === 'number') {
      // What the database would refuse must not get into the ring, which would be refused at every start.
      if (!Number.isSafeInteger(value)) throw new StaticError('internal_error', `${value} is not a whole number.`)
      this.byte(NUMBER)
      this.#reserve(8)
      this.#length = this.#buffer.writeDoubleLE(value, this.#length)
    } else if (typeof value === 'string') {
      this.byte(TEXT)
      this.#reserve(4 + UTF8_WIDTH * value.length)
      const written = this.#buffer.write(value, this.#length + 4)
      this.#length = this.#buffer.writeUInt32LE(written, this.#length) + written
    } else {
      this.byte(BYTES)
      this.#reserve(4 + value.length)
      const start = this.#buffer.writeUInt32LE(value.length, this.#length)
      this.#buffer.set(value, start)
      this.#length = start + value.length
    }
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#buffer.length) return
    const larger = Buffer.allocUnsafeSlow(2 * (this.#length + bytes))
    larger.set(this.bytes)
    this.#buffer.fill(0)
    this.#buffer = larger
  }
}

/** The change at an offset, and the offset behind it. Its bytes are views. */
export function readRowChange(bytes: Buffer, start: number): { readonly change: RowChange; readonly end: number } {
  let at = start
  const byte = (): number => bytes.readUInt8(at++)
  const kind = KINDS[byte()] ?? 'put'
  const table = byte()
  const fields = kind === 'change' ? Array.from({ length: byte() }, byte) : []
  const count = byte()
  const values: Value[] = []
  for (let n = 0; n < count; n++) {
    const type = byte()
    if (type === NULL) values.push(null)
    else if (type === NUMBER) {
      values.push(bytes.readDoubleLE(at))
      at += 8
    } else {
      const from = at + 4
      at = from + bytes.readUInt32LE(at)
      values.push(type === TEXT ? bytes.toString('utf8', from, at) : bytes.subarray(from, at))
    }
  }
  return { change: { kind, table, fields, values }, end: at }
}
