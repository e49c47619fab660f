/** Queries on the way of every request: built and compiled once, then only bound to values. */
import type { Compilable } from 'kysely'
import type { Db } from './schema.ts'

/** Compiles a query whose values are placeholders; the returned function takes the real ones, in their order. */
export function prepare<Row>(db: Db, query: Compilable<Row>): (...values: readonly string[]) => Promise<Row[]> {
  const compiled = query.compile()
  return async (...values) => (await db.executeQuery<Row>({ ...compiled, parameters: values })).rows
}
