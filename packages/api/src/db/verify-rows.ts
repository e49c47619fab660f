/** Reads every row that has a checksum, to find damage that no request has encountered yet. */
import { sql } from 'kysely'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { COVERED_TABLES, coveredColumns, type CoveredTable, type DamageReport, intactOf } from './checksums.ts'
import type { Db, Schema } from './schema.ts'

/** Rows of one query. SQLite reads them in this thread, in about a millisecond. */
const BATCH = 200

/** The columns by which rows are found and sorted. */
const KEYS: Readonly<Record<CoveredTable, readonly string[]>> = {
  accounts: ['id'],
  api_keys: ['id'],
  sessions: ['id_hash'],
  devices: ['id_hash'],
  links: ['selector'],
  signing_keys: ['generation'],
  usage_periods: ['account_id', 'mode', 'period'],
  leases: ['id'],
  idempotency: ['scope', 'key'],
  channel_deletions: ['id'],
}

/** Reports each damaged row. */
export async function verifyRows(db: Db, report: DamageReport): Promise<void> {
  for (const table of COVERED_TABLES) await verifyTable(db, table, report)
}

async function verifyTable(db: Db, table: CoveredTable, report: DamageReport): Promise<void> {
  const refs = (names: readonly string[]) => sql.join(names.map((name) => sql.ref(name)))
  const key = KEYS[table]
  let after = sql``
  for (;;) {
    const { rows } = await sql<
      Schema[typeof table]
    >`select ${refs(coveredColumns(table))} from ${sql.table(table)} ${after}
      order by ${refs(key)} limit ${BATCH}`.execute(db)
    intactOf(table, rows, report)
    const last = rows.at(-1) as Readonly<Record<string, unknown>> | undefined
    if (last === undefined || rows.length < BATCH) return
    after = sql`where (${refs(key)}) > (${sql.join(key.map((name) => last[name]))})`
    await nextTurn()
  }
}
