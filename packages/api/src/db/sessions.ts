/** Sign-in sessions in the database, found by the hash of their id. */
import type { Selectable, Transaction } from 'kysely'
import type { SessionRecord, SessionStore } from '../ports.ts'
import { record } from './audit.ts'
import { type Checked, intact, sealed } from './checksums.ts'
import { lockAccount, lockAccountAsIs } from './lock-account.ts'
import type { Db, Schema } from './schema.ts'

export function sessionStore(db: Db): SessionStore {
  return {
    create: (session, passwordHash, entry) =>
      db.transaction().execute(async (tx) => {
        // Locks the account: a concurrent password change either ends this session as well, or refuses it.
        const account = await lockAccount(tx, session.accountId)
        if (account?.password_hash !== passwordHash) return false
        await insert(tx, session)
        await record(tx, [entry])
        return true
      }),

    async find(idHash) {
      const row = await db
        .selectFrom('sessions as s')
        // A session without an account is damaged.
        .leftJoin('accounts as a', 'a.id', 's.account_id')
        .selectAll('s')
        .select(['a.email_key', 'a.password_hash', 'a.plan', 'a.status', 'a.checksum as account_checksum'])
        .where('s.id_hash', '=', idHash)
        .executeTakeFirst()
      if (!row) return undefined
      const session = fromRow(row)
      const { account_id: id, account_checksum: checksum, ...rest } = row
      const { plan, status } = intact('accounts', { ...rest, id, checksum } as Checked<'accounts'>)
      return { ...session, plan, status }
    },

    async renew(idHash, seenAt, expiresAt) {
      const found = await db.selectFrom('sessions').selectAll().where('id_hash', '=', idHash).executeTakeFirst()
      if (!found) return
      const { checksum } = sealed('sessions', { ...intact('sessions', found), expires_at: expiresAt })
      await db
        .updateTable('sessions')
        .set({ seen_at: seenAt, expires_at: expiresAt, checksum })
        .where('id_hash', '=', idHash)
        .where('expires_at', '<', expiresAt)
        .execute()
    },

    async remove(idHash, entryOf) {
      const session = db.selectFrom('sessions').select('account_id').where('id_hash', '=', idHash)
      const owner = await session.executeTakeFirst()
      if (!owner) return
      await db.transaction().execute(async (tx) => {
        await lockAccountAsIs(tx, owner.account_id)
        const { numDeletedRows } = await tx.deleteFrom('sessions').where('id_hash', '=', idHash).executeTakeFirst()
        if (numDeletedRows > 0n) await record(tx, [entryOf(owner.account_id)])
      })
    },

    async list(accountId, now, limit) {
      const rows = await db
        .selectFrom('sessions')
        .selectAll()
        .where('account_id', '=', accountId)
        .where('expires_at', '>', now)
        .orderBy('created_at', 'desc')
        .orderBy('id', 'desc')
        .limit(limit)
        .execute()
      return rows.map(fromRow)
    },

    endOthers: (callerHash, which, entry) =>
      db.transaction().execute(async (tx) => {
        await lockAccount(tx, entry.accountId)
        const own = tx.selectFrom('sessions').selectAll().where('id_hash', '=', callerHash)
        const row = await own.executeTakeFirst()
        if (!row) return undefined
        intact('sessions', row)
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
    .values(
      sealed('sessions', {
        id: session.id,
        id_hash: session.idHash,
        account_id: session.accountId,
        created_at: session.createdAt,
        seen_at: session.seenAt,
        expires_at: session.expiresAt,
        client: session.client,
        address: session.address,
      }),
    )
    .execute()
}

function fromRow(found: Selectable<Schema['sessions']>): SessionRecord {
  const row = intact('sessions', found)
  return {
    id: row.id,
    idHash: row.id_hash,
    accountId: row.account_id,
    createdAt: row.created_at,
    seenAt: row.seen_at,
    expiresAt: row.expires_at,
    client: row.client,
    address: row.address,
  }
}

/** Deletes the sessions that have expired. */
export async function endExpiredSessions(db: Db, now: number): Promise<void> {
  const expired = db.selectFrom('sessions').select('account_id').distinct().where('expires_at', '<=', now)
  for (const { account_id: accountId } of await expired.execute()) {
    await db.transaction().execute(async (tx) => {
      await lockAccountAsIs(tx, accountId)
      const own = tx.deleteFrom('sessions').where('account_id', '=', accountId).where('expires_at', '<=', now)
      const count = Number((await own.executeTakeFirst()).numDeletedRows)
      // Another node may have deleted them first.
      if (count > 0) await record(tx, [{ accountId, at: now, actor: 'system', event: 'session_ended', count }])
    })
  }
}
