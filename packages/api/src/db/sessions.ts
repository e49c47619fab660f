/** Sign-in sessions in the database, found by the hash of their id. */
import { sql } from 'kysely'
import type { SessionStore } from '../ports.ts'
import type { Db } from './schema.ts'

export function sessionStore(db: Db): SessionStore {
  return {
    create: (session, passwordHash) =>
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

    async remove(idHash) {
      await db.deleteFrom('sessions').where('id_hash', '=', idHash).execute()
    },
  }
}
