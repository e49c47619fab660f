/**
 * Remains of deleted channels: deleted gradually, because other operations wait meanwhile. First the rows that count
 * towards the account's room, which is then freed, and then the rest.
 */
import type { StatementSync } from 'node:sqlite'
import type { Account } from '../../../ports.ts'
import { entryKey } from './keys.ts'
import type { Statements } from '../statements.ts'

/** How much one sweep deletes, of the rows that count and of the rest: rows, and their bytes. */
const MAX_ROWS = 2048
const MAX_BYTES = 32 * 1_048_576
/** Number of rows deleted by one statement. */
const CHUNK = 64
/** How many rows a visit to a channel counts for, even if nothing is left there. */
const VISIT = 4

type DroppedRow = [channel: number, account: string, mode: Account['mode'], bytes: number]

/** Deletes at most `limit` rows of a table. Returns the size of each. */
type Purge = (limit: number) => readonly unknown[]

/** What one sweep may still delete. */
interface Budget {
  rows: number
  bytes: number
}

/** Deletes some of the rows left by deleted channels. `release` takes their bytes off an account. */
export function purgeDropped(statements: Statements, release: (account: Account, bytes: number) => void): void {
  const { freeDropped, forgetDropped } = statements
  forEachPurged(statements, 0, counted, ([channel, id, mode, bytes]) => {
    // Must come first: loading the account sums up what it holds, with this channel.
    release({ id, mode }, bytes)
    freeDropped.run(channel)
  })
  forEachPurged(statements, 1, uncounted, ([channel]) => forgetDropped.run(channel))
}

/** Continues with the deleted channels of one state, in order, as far as the budget allows. */
function forEachPurged(
  statements: Statements,
  freed: 0 | 1,
  purges: (statements: Statements, channel: number) => readonly Purge[],
  done: (row: DroppedRow) => void,
): void {
  const budget: Budget = { rows: MAX_ROWS, bytes: MAX_BYTES }
  while (budget.rows > 0 && budget.bytes > 0) {
    const row = statements.firstDropped.get(freed) as unknown as DroppedRow | undefined
    if (!row) return
    budget.rows -= VISIT
    if (!purges(statements, row[0]).every((purge) => isPurged(purge, budget))) return
    done(row)
  }
}

/** Whether nothing is left of a table. */
function isPurged(purge: Purge, budget: Budget): boolean {
  for (;;) {
    const limit = Math.min(CHUNK, budget.rows)
    if (limit <= 0 || budget.bytes <= 0) return false
    const sizes = purge(limit) as readonly [number][]
    budget.rows -= sizes.length
    for (const [size] of sizes) budget.bytes -= size
    if (sizes.length < limit) return true
  }
}

/** The tables whose rows count towards the room of the account. */
function counted(statements: Statements, channel: number): readonly Purge[] {
  const { purgeEntries, purgeWelcomes, purgeGroupInfos, purgeTurns, purgeSlots } = statements
  return [
    (limit) => purgeEntries.all(entryKey(channel, 0), entryKey(channel + 1, 0), limit),
    ...[purgeWelcomes, purgeGroupInfos, purgeTurns, purgeSlots].map((statement) => purgeOf(statement, channel)),
  ]
}

/** Ids are left to expire: the number of a channel is never reused. */
function uncounted({ purgeSenders }: Statements, channel: number): readonly Purge[] {
  return [purgeOf(purgeSenders, channel)]
}

function purgeOf(statement: StatementSync, channel: number): Purge {
  return (limit) => statement.all(channel, limit)
}
