/** The interface of a database engine, for the query files. */
import type { Compilable } from 'kysely'
import type { Db } from './schema.ts'

/** An open database. */
export interface Engine {
  readonly db: Db
  /** Where the windows of rate limits are. */
  readonly rateWindows: Db
  /**
   * Prepares a query that reads only committed data, for the hot path of every request: it bypasses kysely at run time
   * and uses a connection that does not wait for transactions. The returned function binds the values in order. `read`
   * gets rows as arrays in the order of the query's columns, because objects with dynamic keys are slow to create.
   */
  prepare<T>(query: Compilable, read: (rows: never) => T): (...values: readonly string[]) => Promise<T>
  /** Resolves if the database responds and can write; rejects with its error otherwise. */
  ping(): Promise<void>
  close(): Promise<void>
}
