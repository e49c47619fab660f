/** Locks the row of an account, first in every transaction that touches several rows of it. */
import { sql, type Transaction } from 'kysely'
import type { AccountStatus } from '@static/protocol'
import type { Schema } from './schema.ts'

/** Locks the account's row until the transaction ends and returns its state. */
export async function lockAccount(tx: Transaction<Schema>, id: string): Promise<AccountStatus | undefined> {
  const row = await tx
    .updateTable('accounts')
    .set({ revision: sql`revision + 1` })
    .where('id', '=', id)
    .returning('status')
    .executeTakeFirst()
  return row?.status
}
