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
/** Null in `Numbers`: with real ones, PostgreSQL would have to walk through the array to find an element. */
const NONE: number = Number.MIN_SAFE_INTEGER

/**
 * Collects rows of numbers for one parameter, an array of `bigint` in binary form: PostgreSQL sets up a function for each
 * array that it unnests, which takes longer than to store a row.
 */
export class Numbers {
  readonly #values: number[] = []

  /** Number of values so far. */
  get length(): number {
    return this.#values.length
  }

  add(row: NumberRow): void {
    for (const value of row) this.#values.push(value ?? NONE)
  }

  finish(): Buffer {
    const all = Buffer.allocUnsafe(ARRAY_HEADER_BYTES + ELEMENT_BYTES * this.#values.length)
    // Dimensions, whether there are nulls, the type of elements, their number, and the first index.
    for (const [at, field] of [1, 0, INT8, this.#values.length, 1].entries()) all.writeInt32BE(field, 4 * at)
    let at = ARRAY_HEADER_BYTES
    for (const value of this.#values) {
      at = all.writeInt32BE(8, at)
      at = all.writeInt32BE(Math.floor(value / 2 ** 32), at)
      at = all.writeUInt32BE(value >>> 0, at)
    }
    return all
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
