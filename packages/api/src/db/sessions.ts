/** Sign-in sessions in the database, found by the hash of their id. */
import { sql } from 'kysely'
import type { SessionStore } from '../ports.ts'
import { record } from './audit.ts'
import { lockAccount } from './lock-account.ts'
import type { Db } from './schema.ts'

export function sessionStore(db: Db): SessionStore {
  return {
    create: (session, passwordHash, entry) =>
      db.transaction().execute(async (tx) => {
        // Locks the account: a concurrent password change either ends this session too, or refuses it.
        const { numUpdatedRows } = await tx
          .updateTable('accounts')
          .set({ revision: sql`revision + 1` })
          .where('id', '=', session.accountId)
          .where('password_hash', '=', passwordHash)
          .executeTakeFirst()
        if (numUpdatedRows === 0n) return false
        await tx
          .insertInto('sessions')
          .values({
            id_hash: session.idHash,
            account_id: session.accountId,
            created_at: session.createdAt,
            expires_at: session.expiresAt,
          })
          .execute()
        await record(tx, [entry])
        return true
      }),

    find: (idHash) =>
      db
        .selectFrom('sessions as s')
        .innerJoin('accounts as a', 'a.id', 's.account_id')
        .select([
          's.id_hash as idHash',
          's.account_id as accountId',
          's.created_at as createdAt',
          's.expires_at as expiresAt',
          'a.plan as plan',
          'a.status as status',
        ])
        .where('s.id_hash', '=', idHash)
        .executeTakeFirst(),

    async renew(idHash, expiresAt) {
      await db
        .updateTable('sessions')
        .set({ expires_at: expiresAt })
        .where('id_hash', '=', idHash)
        .where('expires_at', '<', expiresAt)
        .execute()
    },

    async remove(idHash, entryOf) {
      const session = db.selectFrom('sessions').select('account_id').where('id_hash', '=', idHash)
      const owner = await session.executeTakeFirst()
      if (!owner) return
      await db.transaction().execute(async (tx) => {
        await lockAccount(tx, owner.account_id)
        const { numDeletedRows } = await tx.deleteFrom('sessions').where('id_hash', '=', idHash).executeTakeFirst()
        if (numDeletedRows > 0n) await record(tx, [entryOf(owner.account_id)])
      })
    },
  }
}

/** Deletes the sessions that have expired. */
export async function endExpiredSessions(db: Db, now: number): Promise<void> {
  const expired = db.selectFrom('sessions').select('account_id').distinct().where('expires_at', '<=', now)
  for (const { account_id: accountId } of await expired.execute()) {
    await db.transaction().execute(async (tx) => {
      await lockAccount(tx, accountId)
      const own = tx.deleteFrom('sessions').where('account_id', '=', accountId).where('expires_at', '<=', now)
      const count = Number((await own.executeTakeFirst()).numDeletedRows)
      // Another node may have deleted them first.
      if (count > 0) await record(tx, [{ accountId, at: now, actor: 'system', event: 'session_ended', count }])
    })
  }
}
