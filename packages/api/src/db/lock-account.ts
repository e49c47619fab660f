/**
 * Locks and changes the row of an account. Every transaction that touches several rows of an account locks it first.
 */
import { type Selectable, sql, type Transaction } from 'kysely'
import { intact, sealed } from './checksums.ts'
import type { Schema } from './schema.ts'

/** Locks the account's row until the transaction ends and returns it. Throws `store_corrupt` if it is damaged. */
export async function lockAccount(
  tx: Transaction<Schema>,
  id: string,
): Promise<Selectable<Schema['accounts']> | undefined> {
  const row = await lockAccountAsIs(tx, id)
  return row && intact('accounts', row)
}

/** Like `lockAccount`, for operations that must work even on a damaged account and do not depend on its values. */
export function lockAccountAsIs(
  tx: Transaction<Schema>,
  id: string,
): Promise<Selectable<Schema['accounts']> | undefined> {
  return tx
    .updateTable('accounts')
    .set({ revision: sql`revision + 1` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
}

/** Changes a locked row. */
export async function changeAccount(
  tx: Transaction<Schema>,
  row: Selectable<Schema['accounts']>,
  change: Partial<Pick<Schema['accounts'], 'email' | 'email_key' | 'name' | 'password_hash' | 'plan' | 'status'>>,
): Promise<void> {
  const { checksum } = sealed('accounts', { ...row, ...change })
  const changed = tx.updateTable('accounts').set({ ...change, checksum })
  await changed.where('id', '=', row.id).execute()
}
