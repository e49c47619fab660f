/** Sends the changes of a batch, all in one round trip with the COMMIT. */
import { Unforeseen } from './facts.ts'
import type { Row, Session, Statement } from './session.ts'

/** The context of the tables of a transaction. */
export interface Transaction {
  session: Session
  /** Whether channels are locked, because the transaction may change them. */
  locks: boolean
  /** Whether it is a single statement that only stores messages (`rows.storeIfCurrent`). */
  isSingle: boolean
  /** Random: distinguishes this transaction's entries from the same ones stored by another. */
  stamp: number
  /** The pending statements of the batch. */
  sent: Promise<unknown>[]
}

/** Sends a statement that changes rows. Throws `Unforeseen` if the transaction is a single other statement. */
export function send({ session, sent, isSingle }: Transaction, statement: Statement, values: readonly unknown[]): void {
  if (isSingle) throw new Unforeseen()
  const answered = session.rows(statement, values)
  // All are awaited together, once the last has been sent.
  answered.catch(() => {})
  sent.push(answered)
}

export function ask({ session }: Transaction, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
  return session.rows(statement, values)
}

/** The values of each column, for `unnest`. */
export function columns(rows: readonly Row[], count: number): unknown[][] {
  return Array.from({ length: count }, (_, at) => rows.map((row) => row[at]))
}

/** Collects bytes for one parameter: the byte strings of an array would be escaped one by one. Offsets count from 1. */
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

export function bytea(hex: string): Buffer {
  return Buffer.from(hex, 'hex')
}
