/**
 * Ciphertexts of messages, stored apart from the rows that describe them. Row numbers that are no longer needed
 * are reused: overwriting a row in place dirties one page, while deleting and inserting moves rows and frees pages,
 * each of which is wiped and written. Wiping the message key, which is in the small row, touches no ciphertext. A
 * leftover ciphertext is useless without that key and is deleted at the next checkpoint.
 */
import { columnName } from './rows/table.ts'
import type { Database, Statement } from './sqlite.ts'
import { TABLES } from './tables/all-tables.ts'

/**
 * Enough for a burst in each direction. More would only make the next checkpoint slow, since every deleted row is
 * wiped.
 */
const FREE_LIMIT = 256

/** The free row numbers. They follow the transaction: call `commit` after its commit, `revert` if it fails. */
export class Bodies {
  readonly #put: Statement
  readonly #drop: Statement
  #next: number
  #free: number[] = []
  #allocated: number[] = []
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

  /** A row number for another ciphertext. */
  allocate(): number {
    const number = this.#free.pop()
    if (number === undefined) return this.#next++
    this.#allocated.push(number)
    return number
  }

  put(number: number, ciphertext: Uint8Array): void {
    this.#put.run(number, ciphertext)
  }

  /** The message is gone. Its number becomes free once the transaction is on disk. */
  release(number: number): void {
    if (this.#free.length + this.#released.length < FREE_LIMIT) this.#released.push(number)
    else this.#drop.run(number)
  }

  commit(): void {
    for (const number of this.#released) this.#free.push(number)
    this.#nextBefore = this.#next
    this.#allocated = []
    this.#released = []
  }

  revert(): void {
    for (const number of this.#allocated) this.#free.push(number)
    this.#next = this.#nextBefore
    this.#allocated = []
    this.#released = []
  }

  /** Deletes leftover rows, in its own transaction. Call `forget` after it. */
  deleteFree(): void {
    for (const number of this.#free) this.#drop.run(number)
  }

  /** Stops handing out the numbers that were deleted. */
  forget(): void {
    this.#free = []
  }
}

/** Deletes rows left over by a crash. */
export function deleteLeftovers(database: Database): void {
  const used = TABLES.filter(({ body }) => body).map((table) => {
    const until = table.body?.until === undefined ? '' : ` WHERE ${columnName(table, table.body.until)} IS NULL`
    return `SELECT body FROM ${table.name}${until}`
  })
  database.exec(`DELETE FROM body WHERE number NOT IN (${used.join(' UNION ALL ')})`)
}
