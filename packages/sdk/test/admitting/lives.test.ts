/** Random lives of channels on a real relay: who is in is what the invites allow, and the same for all. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { randomNumbers, SEED } from '@static/testkit/random'
import { startTestRelay } from '@static/testkit/relay'
import { IS_WHOLE } from '@static/testkit/whole'
import { TestSystem } from '../support/test-system.ts'
import { Life } from './life.ts'

const LIVES = Number(process.env['STATIC_LIVES'] ?? (IS_WHOLE ? 3 : 2))
const STEPS = 40
const PEOPLE = 5
/** One life, to look at a failure. */
const ONLY = process.env['STATIC_LIFE']
const SETTINGS = {
  session: { pingMs: 5000, pongMs: 5000 },
  rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000, joinsPerMinute: 10_000 },
}

/** The roster of a channel, out of the relay's database. */
function rosterOf(database: DatabaseSync, id: string): string[] {
  const rows = database
    .prepare(
      `SELECT lower(hex(agent)) AS agent FROM members JOIN channels ON members.channel = channels.number
       WHERE channels.id = ? AND ended_index IS NULL`,
    )
    .all(Buffer.from(id, 'hex'))
  return rows.map((row) => String(row['agent'])).sort()
}

test(`${LIVES} lives of ${STEPS} steps, seed ${SEED}`, { timeout: 240_000 }, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'static-lives-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  const path = join(directory, 'relay.sqlite')
  const relay = await startTestRelay('grpc', { settings: SETTINGS, database: path })
  const world = TestSystem.on(t, 'grpc', relay)
  const numbers = ONLY === undefined ? Array.from({ length: LIVES }, (_, at) => at) : [Number(ONLY)]
  const lives = numbers.map((number) => new Life(world, randomNumbers(SEED + 1000 * number), number, PEOPLE))
  const ends = await Promise.allSettled(lives.map((life) => life.run(STEPS)))
  await world.close()
  await relay.close()
  const total: Record<string, number> = {}
  for (const { counts } of lives) for (const [what, n] of Object.entries(counts)) total[what] = (total[what] ?? 0) + n
  t.diagnostic(JSON.stringify(total))
  const failures = ends.filter((end) => end.status === 'rejected').map(({ reason }) => reason as unknown)
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} lives, seed ${SEED}`)
  using database = new DatabaseSync(path)
  for (const end of ends) {
    if (end.status === 'fulfilled') assert.deepEqual(rosterOf(database, end.value.id), end.value.members)
  }
})
