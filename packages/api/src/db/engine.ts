/** What the query files need of an engine. */
import type { Compilable } from 'kysely'
import type { Db } from './schema.ts'

/** An open database. */
export interface Engine {
  readonly db: Db
  /**
   * Prepares a query that only reads what is committed, for the way of every request: past kysely's run time, on a
   * connection that waits for no transaction. The returned function binds the values, in their order. `read` gets the
   * rows as arrays, in the order of the query's columns: objects made from names that are data are slow to make.
   */
  prepare<T>(query: Compilable, read: (rows: never) => T): (...values: readonly string[]) => Promise<T>
  /** Fulfilled when the database answers and can write; rejected with its error otherwise. */
  ping(): Promise<void>
  close(): Promise<void>
}
