/** Quota leases in the database. The period's row is always locked first, so leases of one meter never race. */
import type { Selectable, Transaction } from 'kysely'
import type { LeaseRecord, LeaseStore, Settlement } from '../ports.ts'
import { type DamageReport, intact, intactOf, isDamage, sealed } from './checksums.ts'
import type { Db, Schema } from './schema.ts'
import { addToDay, addToKey, addToPeriod, lockPeriod, type Period } from './usage.ts'

export function leaseStore(db: Db, report: DamageReport): LeaseStore {
  return {
    async sweep(meter, now, expire) {
      const expired = async (from: Pick<Db, 'selectFrom'>): Promise<LeaseRecord[]> => {
        const rows = from
          .selectFrom('leases')
          .selectAll()
          .where('account_id', '=', meter.accountId)
          .where('mode', '=', meter.mode)
          .where('period', '=', meter.period)
          .where('state', '=', 'open')
          .where('expires_at', '<=', now)
        return intactOf('leases', await rows.execute(), report).map(fromRow)
      }
      // Usually there is none, so look before locking.
      if ((await expired(db)).length === 0) return
      const settling = db.transaction().execute(async (tx) => {
        let counters = await lockPeriod(tx, meter)
        for (const lease of await expired(tx)) counters = await apply(tx, counters, expire(lease))
      })
      // Requests that need the damaged counters get the error. The leases of others must not wait for them.
      await settling.catch((error: unknown) => {
        if (!isDamage(error)) throw error
        report(error as Error)
      })
    },

    expired: (now) =>
      db
        .selectFrom('leases')
        .select(['account_id as accountId', 'mode', 'period'])
        .distinct()
        .where('state', '=', 'open')
        .where('expires_at', '<=', now)
        .execute(),

    grant: ({ id, expiresAt, limit, ...meter }, size) =>
      db.transaction().execute(async (tx) => {
        const counters = await lockPeriod(tx, meter)
        const { used, reserved } = counters
        const remaining = limit === null ? Number.POSITIVE_INFINITY : Math.max(0, limit - used - reserved)
        const granted = Math.min(size(remaining), remaining)
        if (granted > 0) {
          await addToPeriod(tx, counters, { reserved: granted })
          await tx
            .insertInto('leases')
            .values(
              sealed('leases', toRow({ ...meter, id, amount: granted, spent: 0, state: 'open', expiresAt, byKey: {} })),
            )
            .execute()
        }
        return { granted, outstanding: reserved }
      }),

    async settle(id, change) {
      const found = await db.selectFrom('leases').selectAll().where('id', '=', id).executeTakeFirst()
      if (!found) return undefined
      const meter = fromRow(intact('leases', found))
      return db.transaction().execute(async (tx) => {
        const counters = await lockPeriod(tx, meter)
        // Read again: another node may have settled it before this one got the lock.
        const own = tx.selectFrom('leases').selectAll().where('id', '=', id)
        const lease = fromRow(intact('leases', await own.executeTakeFirstOrThrow()))
        const account = tx.selectFrom('accounts').selectAll().where('id', '=', lease.accountId)
        const { status } = intact('accounts', await account.executeTakeFirstOrThrow())
        const settlement = change(lease, status)
        await apply(tx, counters, settlement)
        return settlement.lease
      })
    },
  }
}

type Row = Selectable<Schema['leases']>

/** The row must be intact. */
function fromRow(row: Row): LeaseRecord {
  const { id, account_id: accountId, mode, period, amount, spent, state, expires_at: expiresAt } = row
  const byKey = JSON.parse(row.by_key) as LeaseRecord['byKey']
  return { id, accountId, mode, period, amount, spent, state, expiresAt, byKey }
}

function toRow({ accountId, expiresAt, byKey, ...rest }: LeaseRecord): Omit<Row, 'checksum'> {
  return { ...rest, account_id: accountId, expires_at: expiresAt, by_key: JSON.stringify(byKey) }
}

/** Returns the updated counters of the period. */
async function apply(
  tx: Transaction<Schema>,
  counters: Period,
  { lease, used, reserved, keys, day }: Settlement,
): Promise<Period> {
  const { spent, state, expires_at, by_key, checksum } = sealed('leases', toRow(lease))
  await tx
    .updateTable('leases')
    .set({ spent, state, expires_at, by_key, checksum })
    .where('id', '=', lease.id)
    .execute()
  const after = await addToPeriod(tx, counters, { used, reserved })
  await addToDay(tx, lease, day, used)
  for (const [keyId, messages] of Object.entries(keys).sort(([a], [b]) => (a < b ? -1 : 1))) {
    await addToKey(tx, { ...lease, keyId }, { messages })
  }
  return after
}
