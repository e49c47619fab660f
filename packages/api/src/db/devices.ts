/** Browsers in which someone has signed in, found by the hash of the secret in their cookie. */
import type { Transaction } from 'kysely'
import type { DeviceStore } from '../ports.ts'
import { type DamageReport, intactOf, sealed } from './checksums.ts'
import { lockAccount } from './lock-account.ts'
import type { Db, Schema } from './schema.ts'

export function deviceStore(db: Db, report: DamageReport): DeviceStore {
  return {
    async find(idHash, now) {
      const rows = await db
        .selectFrom('devices')
        .selectAll()
        .where('id_hash', '=', idHash)
        .where('expires_at', '>', now)
        .execute()
      // A damaged device does not count: its owner signs in like anyone else.
      const [row] = intactOf('devices', rows, report)
      return row && { idHash: row.id_hash, accountId: row.account_id, expiresAt: row.expires_at }
    },

    put: ({ idHash, accountId, expiresAt }, passwordHash, most) =>
      db.transaction().execute(async (tx) => {
        // Locks the account: a concurrent password change either voids this device as well, or refuses it.
        const account = await lockAccount(tx, accountId)
        if (account?.password_hash !== passwordHash) return false
        const values = sealed('devices', { id_hash: idHash, account_id: accountId, expires_at: expiresAt })
        await tx
          .insertInto('devices')
          .values(values)
          .onConflict((c) => c.column('id_hash').doUpdateSet(values))
          .execute()
        const kept = tx.selectFrom('devices').select('id_hash').where('account_id', '=', accountId)
        const newest = await kept.orderBy('expires_at', 'desc').orderBy('id_hash').limit(most).execute()
        await tx
          .deleteFrom('devices')
          .where('account_id', '=', accountId)
          .where(
            'id_hash',
            'not in',
            newest.map((row) => row.id_hash),
          )
          .execute()
        return true
      }),
  }
}

/** Deletes the devices of an account. */
export async function removeDevices(tx: Transaction<Schema>, accountId: string): Promise<void> {
  await tx.deleteFrom('devices').where('account_id', '=', accountId).execute()
}
