/** Counters of messages and token exchanges in the database. */
import { type Selectable, sql, type Transaction, type WhereInterface } from 'kysely'
import type { Meter, UsageStore } from '../ports.ts'
import { damaged, intact, sealed } from './checksums.ts'
import type { Db, Schema } from './schema.ts'

export function usageStore(db: Db): UsageStore {
  return {
    async read(meter, sinceDay) {
      const period = await db
        .selectFrom('usage_periods')
        .selectAll()
        .where('account_id', '=', meter.accountId)
        .where('mode', '=', meter.mode)
        .where('period', '=', meter.period)
        .executeTakeFirst()
      const days = await db
        .selectFrom('usage_days')
        .select(['day', 'messages'])
        .where('account_id', '=', meter.accountId)
        .where('mode', '=', meter.mode)
        .where('day', '>=', sinceDay)
        .execute()
      if (period) intact('usage_periods', period)
      return {
        used: period?.used ?? 0,
        reserved: period?.reserved ?? 0,
        tokenExchanges: period?.token_exchanges ?? 0,
        days: new Map(days.map(({ day, messages }) => [day, messages])),
      }
    },

    async addTokenExchanges(counts) {
      if (counts.length === 0) return
      await db.transaction().execute(async (tx) => {
        // Always in the same order, as in `touch`, to avoid deadlocks.
        for (const { count, keyId: _, ...meter } of [...counts].sort((a, b) =>
          a.accountId + a.mode < b.accountId + b.mode ? -1 : 1,
        )) {
          await addExchanges(tx, meter, count)
        }
        for (const { count, ...own } of [...counts].sort((a, b) => (a.keyId < b.keyId ? -1 : 1))) {
          await addToKey(tx, own, { exchanges: count })
        }
      })
    },
  }
}

/** A period's row, locked. */
export type Period = Selectable<Schema['usage_periods']>

/** Creates the period's row if it is missing and locks it until the transaction ends. Throws `store_corrupt`. */
export async function lockPeriod(tx: Transaction<Schema>, meter: Meter): Promise<Period> {
  if (!(await ensurePeriod(tx, meter))) throw damaged('usage_periods', { account_id: meter.accountId })
  const row = await ofMeter(tx.updateTable('usage_periods'), meter)
    .set({ reserved: sql`reserved` })
    .returningAll()
    .executeTakeFirstOrThrow()
  return intact('usage_periods', row)
}

/** Adds to the counters of a locked period; amounts may be negative. Returns the updated period. */
export async function addToPeriod(
  tx: Transaction<Schema>,
  period: Period,
  add: { readonly used?: number; readonly reserved?: number },
): Promise<Period> {
  const { used, reserved } = period
  const next = sealed('usage_periods', {
    ...period,
    used: used + (add.used ?? 0),
    reserved: reserved + (add.reserved ?? 0),
  })
  await ofMeter(tx.updateTable('usage_periods'), { accountId: period.account_id, ...period })
    .set({ used: next.used, reserved: next.reserved, checksum: next.checksum })
    .execute()
  return next
}

/** Counts token exchanges, even of a damaged period: they decide nothing, and others must not wait. */
async function addExchanges(tx: Transaction<Schema>, meter: Meter, count: number): Promise<void> {
  // A new row in the place of a lost one would hide the loss.
  if (!(await ensurePeriod(tx, meter))) await ofMeter(tx.deleteFrom('usage_periods'), meter).execute()
  await ofMeter(tx.updateTable('usage_periods'), meter)
    .set({ token_exchanges: sql`token_exchanges + ${count}` })
    .execute()
}

/** Creates the period's row if it is missing; false if it is missing although it has leases. */
async function ensurePeriod(tx: Transaction<Schema>, meter: Meter): Promise<boolean> {
  const { accountId, mode, period } = meter
  const counters = { used: 0, reserved: 0, token_exchanges: 0 }
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('usage_periods')
    .values(sealed('usage_periods', { account_id: accountId, mode, period, ...counters }))
    .onConflict((c) => c.columns(['account_id', 'mode', 'period']).doNothing())
    .executeTakeFirst()
  if (numInsertedOrUpdatedRows === 0n) return true
  const leases = tx
    .selectFrom('leases')
    .select('id')
    .where('account_id', '=', accountId)
    .where('mode', '=', mode)
    .where('period', '=', period)
  return (await leases.limit(1).executeTakeFirst()) === undefined
}

/** Narrows a query to the period's row. */
function ofMeter<Query extends WhereInterface<Schema, 'usage_periods'>>(query: Query, meter: Meter): Query {
  const { accountId, mode, period } = meter
  return query.where('account_id', '=', accountId).where('mode', '=', mode).where('period', '=', period) as Query
}

/**
 * Adds to a key's counters of a month, if the key belongs to the account. Late writes for a past month no longer
 * matter. Keys must be ordered by id, as in `touch`, and come after the periods.
 */
export async function addToKey(
  tx: Transaction<Schema>,
  { keyId, accountId, period }: Pick<Meter, 'accountId' | 'period'> & { readonly keyId: string },
  add: { exchanges?: number; messages?: number },
): Promise<void> {
  await tx
    .updateTable('api_keys')
    .set({
      exchanges: sql`case when counted_period = ${period} then exchanges else 0 end + ${add.exchanges ?? 0}`,
      messages: sql`case when counted_period = ${period} then messages else 0 end + ${add.messages ?? 0}`,
      counted_period: period,
    })
    .where('id', '=', keyId)
    .where('account_id', '=', accountId)
    .where('counted_period', '<=', period)
    .execute()
}

export async function addToDay(tx: Transaction<Schema>, meter: Meter, day: string, messages: number): Promise<void> {
  if (messages === 0) return
  await tx
    .insertInto('usage_days')
    .values({ account_id: meter.accountId, mode: meter.mode, day, messages })
    .onConflict((c) =>
      c.columns(['account_id', 'mode', 'day']).doUpdateSet({ messages: sql`usage_days.messages + excluded.messages` }),
    )
    .execute()
}
