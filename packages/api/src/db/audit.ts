/**
 * The audit log in the database. The entries of each kind are bounded per account, so that many events of one kind,
 * which a stranger or a thief can cause, never push out those of another.
 */
import { sql, type Selectable, type Transaction } from 'kysely'
import type { AuditEvent } from '@static/protocol'
import type { AuditRecord, AuditStore, OperatorEntry } from '../ports.ts'
import { newId } from '../rules/id.ts'
import { lockAccountAsIs } from './lock-account.ts'
import type { Db, Schema } from './schema.ts'

/** The maximum number of entries of one kind per account; the oldest are deleted. */
const MOST_OF_A_KIND = 200
/** Frequent events share an entry for this long after its first. */
const SHARED_MS = 3600_000
const FREQUENT: readonly AuditEvent[] = ['sign_in', 'sign_in_failed', 'session_ended']

export function auditStore(db: Db): AuditStore {
  return {
    async add(entries) {
      const byAccount = Map.groupBy(entries, ({ accountId }) => accountId)
      // One account at a time, each in its own transaction, so that two nodes cannot deadlock.
      for (const [accountId, own] of byAccount) {
        await db.transaction().execute(async (tx) => {
          if ((await lockAccountAsIs(tx, accountId)) !== undefined) await record(tx, own)
        })
      }
    },

    async list(accountId, before, limit) {
      let query = db.selectFrom('audit').selectAll().orderBy('id', 'desc').limit(limit)
      if (accountId !== undefined) query = query.where('account_id', '=', accountId)
      if (before !== undefined) query = query.where('id', '<', before)
      return (await query.execute()).map(fromRow)
    },
  }
}

/** Adds entries, in the transaction of the change they report. The rows of their accounts must be locked. */
export async function record(tx: Transaction<Schema>, entries: readonly OperatorEntry[]): Promise<void> {
  // Ids from the same millisecond are random. Sorting them keeps the order of the entries.
  const ids = entries.map(({ at }) => newId(at)).sort()
  for (const [place, entry] of entries.entries()) {
    if (FREQUENT.includes(entry.event) && (await addToShared(tx, entry))) continue
    await insert(tx, ids[place] ?? '', entry)
  }
}

/** Counts a frequent event in the shared entry of its hour; false if there is none yet. */
async function addToShared(tx: Transaction<Schema>, entry: OperatorEntry): Promise<boolean> {
  const { accountId, event, actor, address, at, count = 1 } = entry
  const { numUpdatedRows } = await tx
    .updateTable('audit')
    .set({ count: sql`count + ${count}`, last_at: at })
    .where('account_id', accountId === null ? 'is' : '=', accountId)
    .where('event', '=', event)
    .where('actor', '=', actor)
    .where('address', address === undefined ? 'is' : '=', address ?? null)
    .where('at', '>', at - SHARED_MS)
    // The clock was set back: this event belongs to an earlier hour.
    .where('at', '<=', at)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

async function insert(tx: Transaction<Schema>, id: string, entry: OperatorEntry): Promise<void> {
  const { accountId, at, count = 1, actor, event, keyId = null, inviteId = null, plan = null } = entry
  const { channel = null, address = null } = entry
  const about = { key_id: keyId, invite_id: inviteId, plan, channel, address }
  await tx
    .insertInto('audit')
    .values({ id, account_id: accountId, at, last_at: at, count, actor, event, ...about })
    .execute()
  const same = accountId === null ? 'is' : '='
  await tx
    .deleteFrom('audit')
    .where('account_id', same, accountId)
    .where('event', '=', event)
    .where('id', '<=', (q) =>
      q
        .selectFrom('audit as newer')
        .select('newer.id')
        .where('newer.account_id', same, accountId)
        .where('newer.event', '=', event)
        .orderBy('newer.id', 'desc')
        .limit(1)
        .offset(MOST_OF_A_KIND),
    )
    .execute()
}

function fromRow(row: Selectable<Schema['audit']>): AuditRecord {
  return {
    id: row.id,
    accountId: row.account_id,
    at: row.at,
    lastAt: row.last_at,
    count: row.count,
    actor: row.actor,
    event: row.event,
    keyId: row.key_id,
    inviteId: row.invite_id,
    plan: row.plan,
    channel: row.channel,
    address: row.address,
  }
}
