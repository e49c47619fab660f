/** Sends the changes of a batch, all in one round trip with the COMMIT. */
import { Unforeseen } from './facts.ts'
import type { Row, Session, Statement } from './session.ts'

/** What the tables of a transaction work with. */
export interface Transaction {
  session: Session
  /** Whether other nodes may change what is read meanwhile: then channels are locked. */
  locks: boolean
  /** Whether it is a single statement that only stores messages (`rows.storeIfCurrent`). */
  isSingle: boolean
  /** Random: tells the entries of this transaction from the same ones that another has stored. */
  stamp: number
  /** The statements of the batch that are under way. */
  sent: Promise<unknown>[]
}

/** Sends a statement that changes rows. Throws `Unforeseen` if the transaction consists of another one. */
export function send({ session, sent, isSingle }: Transaction, statement: Statement, values: readonly unknown[]): void {
  if (isSingle) throw new Unforeseen()
  const answered = session.rows(statement, values)
  // All are awaited together, after the last was sent.
  answered.catch(() => {})
  sent.push(answered)
}

/** Reads rows. */
export function ask({ session }: Transaction, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
  return session.rows(statement, values)
}

/** The values of each column, for `unnest`. */
export function columns(rows: readonly Row[], count: number): unknown[][] {
  return Array.from({ length: count }, (_, at) => rows.map((row) => row[at]))
}

/** A row in which offsets stand for bytes. */
export type NumberRow = readonly (number | null)[]

/** Collects bytes for one parameter: an array of byte strings would be escaped one by one. Offsets count from 1. */
export class Blob {
  readonly #parts: Uint8Array[] = []
  #size = 0

  /** Returns the offset for `substr`. */
  put(bytes: Uint8Array): number {
    const at = this.#size + 1
    this.#parts.push(bytes)
    this.#size += bytes.length
    return at
  }

  finish(): Buffer {
    return Buffer.concat(this.#parts, this.#size)
  }
}

const INT8 = 20
const ARRAY_HEADER_BYTES = 20
const ELEMENT_BYTES = 12
/** Enough for a few messages. */
const FIRST_BYTES = 4096
/** Null in `Numbers`: with real ones, PostgreSQL would have to walk through the array to find an element. */
const NONE: number = Number.MIN_SAFE_INTEGER

/**
 * Collects rows of numbers for one parameter, an array of `bigint` in binary form: PostgreSQL sets up a function for each
 * array that it unnests, which takes longer than to store a row.
 */
export class Numbers {
  #bytes = new DataView(new ArrayBuffer(FIRST_BYTES))
  #length = 0

  /** Number of values so far. */
  get length(): number {
    return this.#length
  }

  add(row: NumberRow): void {
    let at = ARRAY_HEADER_BYTES + ELEMENT_BYTES * this.#length
    if (at + ELEMENT_BYTES * row.length > this.#bytes.byteLength) this.#grow()
    for (const value of row) {
      const number = value ?? NONE
      this.#bytes.setInt32(at, 8)
      this.#bytes.setInt32(at + 4, Math.floor(number / 2 ** 32))
      this.#bytes.setInt32(at + 8, number)
      at += ELEMENT_BYTES
    }
    this.#length += row.length
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

/** SQL for a column of the row that starts after offset `o` of the array of numbers `$2`. Columns count from 1. */
export function numberAt(column: number): string {
  return `($2::bigint[])[o + ${column}]`
}

/** The same for a column that can be null. */
export function nullableAt(column: number): string {
  return `nullif(${numberAt(column)}, ${NONE})`
}

/** Bytes as a parameter. */
export function bytea(hex: string): Buffer {
  return Buffer.from(hex, 'hex')
}
