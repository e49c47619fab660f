/**
 * Windows of rate limits that all nodes count together. They may be lost in a crash, so no commit waits for a disk or a
 * standby: PostgreSQL does not log the table, and SQLite, which has only one node, keeps it in memory.
 */
import { type RawBuilder, sql } from 'kysely'
import type { AskedWindow, RateWindow, RateWindowStore } from '../ports.ts'
import type { Db } from './schema.ts'

/** Creates the table and its index. */
export const RATE_WINDOWS = `create table rate_windows (policy text not null, subject text not null,
  count bigint not null, ends bigint not null, primary key (policy, subject));
create index rate_windows_end on rate_windows (policy, ends)`

export function rateWindowStore(db: Db): RateWindowStore {
  const find = ({ policy, subject, now, length }: AskedWindow): Promise<RateWindow | undefined> =>
    db
      .selectFrom('rate_windows')
      .select(['count', 'ends'])
      .where('policy', '=', policy)
      .where('subject', '=', subject)
      .where('ends', '>', now)
      .where('ends', '<=', latest(now, length))
      .executeTakeFirst()
  return {
    async spend(asked) {
      const { policy, subject, limit, length, now } = asked
      const ends = now + length
      const isOver = overBy(asked)
      const counted = await db
        .insertInto('rate_windows')
        .values({ policy, subject, count: 1, ends })
        .onConflict((c) =>
          c
            .columns(['policy', 'subject'])
            .doUpdateSet({
              count: sql<number>`case when ${isOver} then 1 else rate_windows.count + 1 end`,
              ends: sql<number>`case when ${isOver} then excluded.ends else rate_windows.ends end`,
            })
            .where(sql<boolean>`rate_windows.count < ${limit} or ${isOver}`),
        )
        .returning(['count', 'ends'])
        .executeTakeFirst()
      if (counted) return { ...counted, isFull: false }
      // Another node may have deleted it since.
      return { ...((await find(asked)) ?? { count: limit, ends: now + 1 }), isFull: true }
    },

    read: find,

    refund: ({ policy, subject, now }) =>
      db
        .updateTable('rate_windows')
        .set({ count: sql`count - 1` })
        .where('policy', '=', policy)
        .where('subject', '=', subject)
        .where('ends', '>', now)
        .where('count', '>', 0)
        .returning(['count', 'ends'])
        .executeTakeFirst(),

    async prune(now, most) {
      await db.deleteFrom('rate_windows').where('ends', '<=', now).execute()
      const policies = await db.selectFrom('rate_windows').select('policy').distinct().execute()
      for (const { policy } of policies) {
        const ofPolicy = db.selectFrom('rate_windows').select('ends').where('policy', '=', policy)
        const last = await ofPolicy.orderBy('ends', 'desc').limit(1).offset(most).executeTakeFirst()
        if (!last) continue
        await db.deleteFrom('rate_windows').where('policy', '=', policy).where('ends', '<=', last.ends).execute()
      }
    },
  }
}

/** Whether the window in the table has ended, or was opened before the clock was set back. */
function overBy({ now, length }: AskedWindow): RawBuilder<boolean> {
  return sql<boolean>`(rate_windows.ends <= ${now} or rate_windows.ends > ${latest(now, length)})`
}

/** The clocks of nodes differ, so an open window may end later than one that this node starts now. */
function latest(now: number, length: number): number {
  return now + 2 * length
}
