/** Transactions that can roll back and still return a result. */
import type { Transaction } from 'kysely'
import type { Db, Schema } from './schema.ts'

/** Thrown inside a transaction to roll it back; caught by `rollingBack`. */
class RolledBack extends Error {
  readonly answer: string
  constructor(answer: string) {
    super(answer)
    this.answer = answer
  }
}

/** Rolls back the surrounding transaction, with `answer` as its result. */
export function rollBack(answer: string): never {
  throw new RolledBack(answer)
}

/** Runs a transaction in which `rollBack` may be called. */
export async function rollingBack<T extends string>(db: Db, work: (tx: Transaction<Schema>) => Promise<T>): Promise<T> {
  try {
    return await db.transaction().execute(work)
  } catch (error) {
    if (error instanceof RolledBack) return error.answer as T
    throw error
  }
}
