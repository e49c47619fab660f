/** Counters of messages and token exchanges in the database. */
import { sql, type Transaction } from 'kysely'
import type { Meter, UsageStore } from '../ports.ts'
import type { Db, Schema } from './schema.ts'

export function usageStore(db: Db): UsageStore {
  return {
    async read(meter, sinceDay) {
      const period = await db
        .selectFrom('usage_periods')
        .select(['used', 'reserved', 'token_exchanges'])
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
          await lockPeriod(tx, meter)
          await addToPeriod(tx, meter, { token_exchanges: count })
        }
        for (const { count, ...own } of [...counts].sort((a, b) => (a.keyId < b.keyId ? -1 : 1))) {
          await addToKey(tx, own, { exchanges: count })
        }
      })
    },
  }
}

/** Creates the period's row if it is missing and locks it until the transaction ends. */
export async function lockPeriod(tx: Transaction<Schema>, meter: Meter): Promise<{ used: number; reserved: number }> {
  await tx
    .insertInto('usage_periods')
    .values({
      account_id: meter.accountId,
      mode: meter.mode,
      period: meter.period,
      used: 0,
      reserved: 0,
      token_exchanges: 0,
    })
    .onConflict((c) => c.columns(['account_id', 'mode', 'period']).doNothing())
    .execute()
  return tx
    .updateTable('usage_periods')
    .set({ reserved: sql`reserved` })
    .where('account_id', '=', meter.accountId)
    .where('mode', '=', meter.mode)
    .where('period', '=', meter.period)
    .returning(['used', 'reserved'])
    .executeTakeFirstOrThrow()
}

/** Adds to a period's counters; amounts may be negative. */
export async function addToPeriod(
  tx: Transaction<Schema>,
  meter: Meter,
  add: { used?: number; reserved?: number; token_exchanges?: number },
): Promise<void> {
  await tx
    .updateTable('usage_periods')
    .set({
      used: sql`used + ${add.used ?? 0}`,
      reserved: sql`reserved + ${add.reserved ?? 0}`,
      token_exchanges: sql`token_exchanges + ${add.token_exchanges ?? 0}`,
    })
    .where('account_id', '=', meter.accountId)
    .where('mode', '=', meter.mode)
    .where('period', '=', meter.period)
    .execute()
}

/**
 * Adds to a key's counters of a month, if it is the account's. Those of a month that is over, written late, no longer matter. Keys must be in the
 * order of their ids, as in `touch`, and after the periods.
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

/** Adds to a day's counter. */
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
