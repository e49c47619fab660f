/**
 * Ciphertexts of outbox and inbox, apart from the rows that describe them. The numbers of those that are no longer
 * needed are used again: overwriting a row in its place dirties one page, where deleting it and inserting another
 * moves rows and frees pages, each of which is wiped and written. Wiping the message key, which lies in the small row,
 * touches no ciphertext. What is left over is useless without that key and goes at the next checkpoint.
 */
import type { Database, Statement } from './sqlite.ts'

/** Enough for a burst each way. More would only make the next checkpoint long: each row that it deletes is wiped. */
const FREE_LIMIT = 256

/** The free numbers. They follow the transaction: `settle` after it, `revert` if it failed. */
export class Bodies {
  readonly #put: Statement
  readonly #drop: Statement
  #next: number
  #free: number[] = []
  #taken: number[] = []
  #released: number[] = []
  #nextBefore: number

  constructor(database: Database) {
    this.#put = database.prepare(
      'INSERT INTO body VALUES (?, ?) ON CONFLICT DO UPDATE SET ciphertext = excluded.ciphertext',
    )
    this.#drop = database.prepare('DELETE FROM body WHERE number = ?')
    const last = database.prepare<number>('SELECT coalesce(max(number), 0) FROM body').pluck().get() ?? 0
    this.#next = last + 1
    this.#nextBefore = this.#next
  }

  /** A number for another ciphertext. */
  take(): number {
    const number = this.#free.pop()
    if (number === undefined) return this.#next++
    this.#taken.push(number)
    return number
  }

  put(number: number, ciphertext: Uint8Array): void {
    this.#put.run(number, ciphertext)
  }

  /** Its message is gone; free once the transaction is on disk. */
  release(number: number): void {
    if (this.#free.length + this.#released.length < FREE_LIMIT) this.#released.push(number)
    else this.#drop.run(number)
  }

  settle(): void {
    for (const number of this.#released) this.#free.push(number)
    this.#nextBefore = this.#next
    this.#taken = []
    this.#released = []
  }

  revert(): void {
    for (const number of this.#taken) this.#free.push(number)
    this.#next = this.#nextBefore
    this.#taken = []
    this.#released = []
  }

  /** Deletes what is left over; part of a transaction of its own, after which `forget` belongs. */
  deleteFree(): void {
    for (const number of this.#free) this.#drop.run(number)
  }

  /** The numbers that were deleted are not handed out again. */
  forget(): void {
    this.#free = []
  }
}

/** Deletes what a crash left over. */
export function deleteLeftovers(database: Database): void {
  database.exec(`
    DELETE FROM body WHERE number NOT IN (
      SELECT body FROM outbox WHERE body_hash IS NULL UNION ALL SELECT body FROM inbox
    )
  `)
}
