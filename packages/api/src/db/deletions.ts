/** Requests to delete channels, in the database. One that a relay has carried out has no row. */
import { type Selectable, sql } from 'kysely'
import type { DeletionRecord, DeletionStore } from '../ports.ts'
import { record } from './audit.ts'
import { type DamageReport, intactOf, sealed } from './checksums.ts'
import { lockAccountAsIs } from './lock-account.ts'
import type { Db, Schema } from './schema.ts'

/** Separates relay ids, which are hexadecimal, in a list of them. */
const SEPARATOR = ' '
/** The maximum length of that list. */
const LONGEST_LIST = 8192

export function deletionStore(db: Db, report: DamageReport): DeletionStore {
  return {
    create: (deletion, most, entry) =>
      db.transaction().execute(async (tx) => {
        const { accountId, mode, name } = deletion
        if ((await lockAccountAsIs(tx, accountId)) === undefined) return 'unknown'
        await tx
          .deleteFrom('channel_deletions')
          .where('account_id', '=', accountId)
          .where((q) => q.or([q('expires_at', '<=', entry.at), q.and({ mode, name })]))
          .execute()
        const waiting = await tx
          .selectFrom('channel_deletions')
          .select((q) => q.fn.countAll<number>().as('count'))
          .where('account_id', '=', accountId)
          .executeTakeFirstOrThrow()
        if (waiting.count >= most) return 'limit'
        await tx
          .insertInto('channel_deletions')
          .values(
            sealed('channel_deletions', {
              id: deletion.id,
              account_id: accountId,
              mode,
              name,
              channel_id: deletion.channelId,
              expires_at: deletion.expiresAt,
              missing_at: SEPARATOR,
            }),
          )
          .execute()
        await record(tx, [entry])
        return 'created'
      }),

    async pending(relayId, now, limit) {
      const rows = await db
        .selectFrom('channel_deletions')
        .selectAll()
        .where('expires_at', '>', now)
        .where('missing_at', 'not like', `%${SEPARATOR}${relayId}${SEPARATOR}%`)
        .orderBy('id')
        .limit(limit)
        .execute()
      return intactOf('channel_deletions', rows, report).map(fromRow)
    },

    async missing(id, relayId) {
      await db
        .updateTable('channel_deletions')
        .set({ missing_at: sql`missing_at || ${`${relayId}${SEPARATOR}`}` })
        .where('id', '=', id)
        .where('missing_at', 'not like', `%${SEPARATOR}${relayId}${SEPARATOR}%`)
        .where(sql`length(missing_at)`, '<', LONGEST_LIST)
        .execute()
    },

    deleted: (id, entryOf) =>
      db.transaction().execute(async (tx) => {
        const row = await tx.selectFrom('channel_deletions').selectAll().where('id', '=', id).executeTakeFirst()
        if (row === undefined) return
        // Locked before the row is deleted, as everywhere.
        await lockAccountAsIs(tx, row.account_id)
        const { numDeletedRows } = await tx.deleteFrom('channel_deletions').where('id', '=', id).executeTakeFirst()
        if (numDeletedRows > 0n) await record(tx, [entryOf(fromRow(row))])
      }),
  }
}

function fromRow(row: Selectable<Schema['channel_deletions']>): DeletionRecord {
  return {
    id: row.id,
    accountId: row.account_id,
    mode: row.mode,
    name: row.name,
    channelId: row.channel_id,
    expiresAt: row.expires_at,
  }
}
