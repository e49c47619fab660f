/** Quota leases in the database. The period's row is always locked first, so leases of one meter never race. */
import type { Transaction } from 'kysely'
import type { LeaseRecord, LeaseStore, Settlement } from '../ports.ts'
import type { Db, Schema } from './schema.ts'
import { addToDay, addToKey, addToPeriod, lockPeriod } from './usage.ts'

const COLUMNS = [
  'id',
  'account_id as accountId',
  'mode',
  'period',
  'amount',
  'spent',
  'state',
  'expires_at as expiresAt',
  'by_key',
] as const

export function leaseStore(db: Db): LeaseStore {
  return {
    async sweep(meter, now, expire) {
      const expired = async (from: Pick<Db, 'selectFrom'>): Promise<LeaseRecord[]> => {
        const rows = from
          .selectFrom('leases')
          .select(COLUMNS)
          .where('account_id', '=', meter.accountId)
          .where('mode', '=', meter.mode)
          .where('period', '=', meter.period)
          .where('state', '=', 'open')
          .where('expires_at', '<=', now)
        return (await rows.execute()).map(fromRow)
      }
      // Usually there is none, so look before locking.
      if ((await expired(db)).length === 0) return
      await db.transaction().execute(async (tx) => {
        await lockPeriod(tx, meter)
        for (const lease of await expired(tx)) await apply(tx, expire(lease))
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
        const { used, reserved } = await lockPeriod(tx, meter)
        const remaining = limit === null ? Number.POSITIVE_INFINITY : Math.max(0, limit - used - reserved)
        const granted = Math.min(size(remaining), remaining)
        if (granted > 0) {
          await addToPeriod(tx, meter, { reserved: granted })
          await tx
            .insertInto('leases')
            .values({
              id,
              account_id: meter.accountId,
              mode: meter.mode,
              period: meter.period,
              amount: granted,
              spent: 0,
              state: 'open',
              expires_at: expiresAt,
              by_key: '{}',
            })
            .execute()
        }
        return { granted, outstanding: reserved }
      }),

    async settle(id, change) {
      const found = await db.selectFrom('leases').select(COLUMNS).where('id', '=', id).executeTakeFirst()
      if (!found) return undefined
      return db.transaction().execute(async (tx) => {
        await lockPeriod(tx, found)
        // Read again: another node may have settled it before this one got the lock.
        const own = tx.selectFrom('leases').select(COLUMNS).where('id', '=', id)
        const lease = fromRow(await own.executeTakeFirstOrThrow())
        const { status } = await tx
          .selectFrom('accounts')
          .select('status')
          .where('id', '=', lease.accountId)
          .executeTakeFirstOrThrow()
        const settlement = change(lease, status)
        await apply(tx, settlement)
        return settlement.lease
      })
    },
  }
}

type Row = Omit<LeaseRecord, 'byKey'> & { readonly by_key: string }

function fromRow({ by_key: byKey, ...rest }: Row): LeaseRecord {
  return { ...rest, byKey: JSON.parse(byKey) as LeaseRecord['byKey'] }
}

async function apply(tx: Transaction<Schema>, { lease, used, reserved, keys, day }: Settlement): Promise<void> {
  await tx
    .updateTable('leases')
    .set({
      spent: lease.spent,
      state: lease.state,
      expires_at: lease.expiresAt,
      by_key: JSON.stringify(lease.byKey),
    })
    .where('id', '=', lease.id)
    .execute()
  await addToPeriod(tx, lease, { used, reserved })
  await addToDay(tx, lease, day, used)
  for (const [keyId, messages] of Object.entries(keys).sort(([a], [b]) => (a < b ? -1 : 1))) {
    await addToKey(tx, { ...lease, keyId }, { messages })
  }
}
