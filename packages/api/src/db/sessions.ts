/** Sign-in sessions in the database, found by the hash of their id. */
import { sql, type Transaction } from 'kysely'
import type { SessionRecord, SessionStore } from '../ports.ts'
import { record } from './audit.ts'
import { lockAccount } from './lock-account.ts'
import type { Db, Schema } from './schema.ts'

const COLUMNS = [
  's.id',
  's.id_hash as idHash',
  's.account_id as accountId',
  's.created_at as createdAt',
  's.seen_at as seenAt',
  's.expires_at as expiresAt',
  's.client',
  's.address',
] as const

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
        await insert(tx, session)
        await record(tx, [entry])
        return true
      }),

    find: (idHash) =>
      db
        .selectFrom('sessions as s')
        .innerJoin('accounts as a', 'a.id', 's.account_id')
        .select([...COLUMNS, 'a.plan as plan', 'a.status as status'])
        .where('s.id_hash', '=', idHash)
        .executeTakeFirst(),

    async renew(idHash, seenAt, expiresAt) {
      await db
        .updateTable('sessions')
        .set({ seen_at: seenAt, expires_at: expiresAt })
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

    list: (accountId, now, limit) =>
      db
        .selectFrom('sessions as s')
        .select(COLUMNS)
        .where('s.account_id', '=', accountId)
        .where('s.expires_at', '>', now)
        .orderBy('s.created_at', 'desc')
        .orderBy('s.id', 'desc')
        .limit(limit)
        .execute(),

    endOthers: (callerHash, which, entry) =>
      db.transaction().execute(async (tx) => {
        await lockAccount(tx, entry.accountId)
        const own = tx.selectFrom('sessions').select('id').where('id_hash', '=', callerHash)
        if (!(await own.executeTakeFirst())) return undefined
        let ended = tx.deleteFrom('sessions').where('account_id', '=', entry.accountId)
        ended = which === 'all' ? ended.where('id_hash', '<>', callerHash) : ended.where('id', '=', which)
        const count = Number((await ended.executeTakeFirst()).numDeletedRows)
        if (count > 0) await record(tx, [{ ...entry, count }])
        return count
      }),
  }
}

async function insert(tx: Transaction<Schema>, session: SessionRecord): Promise<void> {
  await tx
    .insertInto('sessions')
    .values({
      id: session.id,
      id_hash: session.idHash,
      account_id: session.accountId,
      created_at: session.createdAt,
      seen_at: session.seenAt,
      expires_at: session.expiresAt,
      client: session.client,
      address: session.address,
    })
    .execute()
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
