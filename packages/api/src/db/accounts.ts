/** Accounts in the database. */
import type { Selectable, Transaction } from 'kysely'
import type { AccountRecord, AccountStore } from '../ports.ts'
import { claim } from './idempotency.ts'
import { keyValues } from './keys.ts'
import type { Db, Schema } from './schema.ts'
import { rollBack, rollingBack } from './transaction.ts'

export function accountStore(db: Db): AccountStore {
  return {
    create: (account, key, wanted) =>
      rollingBack(db, async (tx) => {
        await claim(tx, wanted, account.id)
        if (!(await insert(tx, account))) rollBack('email_taken')
        await tx.insertInto('api_keys').values(keyValues(key)).execute()
        return 'created'
      }),

    async byId(id) {
      const row = await db.selectFrom('accounts').selectAll().where('id', '=', id).executeTakeFirst()
      return row && fromRow(row)
    },

    async byEmail(email) {
      const row = await db
        .selectFrom('accounts')
        .selectAll()
        .where('email_key', '=', emailKey(email))
        .executeTakeFirst()
      return row && fromRow(row)
    },

    setPassword: (id, oldHash, newHash) =>
      db.transaction().execute(async (tx) => {
        const { numUpdatedRows } = await tx
          .updateTable('accounts')
          .set({ password_hash: newHash })
          .where('id', '=', id)
          .where('password_hash', '=', oldHash)
          .executeTakeFirst()
        if (numUpdatedRows === 0n) return false
        await tx.deleteFrom('sessions').where('account_id', '=', id).execute()
        return true
      }),

    close: (id, oldHash, now) =>
      db.transaction().execute(async (tx) => {
        const { numUpdatedRows } = await tx
          .updateTable('accounts')
          .set({ status: 'closed', email: '', email_key: null, name: null, password_hash: '' })
          .where('id', '=', id)
          .where('password_hash', '=', oldHash)
          .executeTakeFirst()
        if (numUpdatedRows === 0n) return false
        await tx
          .updateTable('api_keys')
          .set({ revoked_at: now })
          .where('account_id', '=', id)
          .where('revoked_at', 'is', null)
          .execute()
        await tx.deleteFrom('sessions').where('account_id', '=', id).execute()
        return true
      }),

    async change(id, change) {
      const { numUpdatedRows } = await db
        .updateTable('accounts')
        .set(change)
        .where('id', '=', id)
        .where('status', '!=', 'closed')
        .executeTakeFirst()
      return numUpdatedRows > 0n
    },
  }
}

/** False if another account has the e-mail address. */
async function insert(tx: Transaction<Schema>, account: AccountRecord): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('accounts')
    .values({
      id: account.id,
      email: account.email,
      email_key: emailKey(account.email),
      name: account.name,
      password_hash: account.passwordHash,
      plan: account.plan,
      status: account.status,
      created_at: account.createdAt,
      revision: 0,
    })
    .onConflict((c) => c.column('email_key').doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows !== 0n
}

/** Addresses that differ only in case belong to one account. */
function emailKey(email: string): string {
  return email.normalize('NFC').toLowerCase()
}

function fromRow(row: Selectable<Schema['accounts']>): AccountRecord {
  return {
    id: row.id,
    email: row.email,
    name: row.name,
    passwordHash: row.password_hash,
    plan: row.plan,
    status: row.status,
    createdAt: row.created_at,
  }
}
