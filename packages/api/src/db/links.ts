/** One-time links in the database. A used, replaced or revoked link has no row. */
import type { Selectable, Transaction } from 'kysely'
import type { LinkRecord, LinkStore, OneTimeToken } from '../ports.ts'
import { record } from './audit.ts'
import { intact, sealed } from './checksums.ts'
import { removeDevices } from './devices.ts'
import { changeAccount, lockAccount } from './lock-account.ts'
import type { Db, Schema } from './schema.ts'
import { rollBack, rollingBack } from './transaction.ts'

export function linkStore(db: Db): LinkStore {
  return {
    create: (link, entry) =>
      db.transaction().execute(async (tx) => {
        if (link.accountId !== null) {
          const account = await lockAccount(tx, link.accountId)
          if (account === undefined || account.status === 'closed') return false
          await removeLinks(tx, link.accountId)
        }
        await tx
          .insertInto('links')
          .values(
            sealed('links', {
              selector: link.selector,
              secret_hash: link.secretHash,
              account_id: link.accountId,
              created_at: link.createdAt,
              expires_at: link.expiresAt,
            }),
          )
          .execute()
        await record(tx, [entry])
        return true
      }),

    async find(selector) {
      const row = await db.selectFrom('links').selectAll().where('selector', '=', selector).executeTakeFirst()
      return row && fromRow(row)
    },

    async invites(now, limit) {
      const rows = await db
        .selectFrom('links')
        .selectAll()
        .where('account_id', 'is', null)
        .where('expires_at', '>', now)
        .orderBy('expires_at')
        .orderBy('selector')
        .limit(limit)
        .execute()
      return rows.map(fromRow)
    },

    revokeInvite: (selector, entry) =>
      db.transaction().execute(async (tx) => {
        const { numDeletedRows } = await tx
          .deleteFrom('links')
          .where('selector', '=', selector)
          .where('account_id', 'is', null)
          .where('expires_at', '>', entry.at)
          .executeTakeFirst()
        if (numDeletedRows === 0n) return false
        await record(tx, [entry])
        return true
      }),

    async setPassword(link, newHash, entry) {
      const result = await rollingBack(db, async (tx) => {
        const account = await lockAccount(tx, entry.accountId)
        if (account?.status !== 'active' || !(await takeLink(tx, link, entry.at))) rollBack('refused')
        await changeAccount(tx, account, { password_hash: newHash })
        await tx.deleteFrom('sessions').where('account_id', '=', entry.accountId).execute()
        await removeDevices(tx, entry.accountId)
        await record(tx, [entry])
        return 'set'
      })
      return result === 'set'
    },
  }
}

/** Uses a link up; false if it was used, replaced or revoked, or has expired. Of two concurrent uses, one succeeds. */
export async function takeLink(tx: Transaction<Schema>, token: OneTimeToken, now: number): Promise<boolean> {
  const taken = await tx
    .deleteFrom('links')
    .where('selector', '=', token.selector)
    .where('secret_hash', '=', token.secretHash)
    .where('expires_at', '>', now)
    .returningAll()
    .executeTakeFirst()
  return taken !== undefined && intact('links', taken) === taken
}

/** Revokes the set-password links of an account. */
export async function removeLinks(tx: Transaction<Schema>, accountId: string): Promise<void> {
  await tx.deleteFrom('links').where('account_id', '=', accountId).execute()
}

function fromRow(found: Selectable<Schema['links']>): LinkRecord {
  const row = intact('links', found)
  return {
    selector: row.selector,
    secretHash: row.secret_hash,
    accountId: row.account_id,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  }
}
