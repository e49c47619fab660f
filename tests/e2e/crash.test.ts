/** kill -9 in the middle of writes: what was acknowledged is there after the next start. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, describe, test } from 'node:test'
import { type Client, makeClient } from '@static/testkit/server/client'
import { makeDatabase } from '../support/database.ts'
import { makeKey, signUp } from '@static/testkit/server/accounts'
import { type Below, randomBelow, seedOf } from '@static/testkit/random'
import { startServer } from '@static/testkit/server'
import { QUICK } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { IS_WHOLE } from '@static/testkit/whole'

const SEED = seedOf(77_015)
const WRITERS = 4
/** A round is cut after between 1 and so many acknowledged writes. */
const MOST_WRITES = 40

const workspace = await makeWorkspace()
after(() => workspace[Symbol.dispose]())

/** What the API has promised: keys that work, and keys that do not any more. */
interface Promises {
  readonly working: Map<string, { readonly account: string; readonly key: string }>
  readonly revoked: Set<string>
  acknowledged: number
}

/** Signs up, makes keys and revokes them until the server dies; notes what was acknowledged, never more. */
async function write(client: Client, below: Below, promises: Promises): Promise<void> {
  const acknowledge = (): void => void promises.acknowledged++
  for (;;) {
    const { id: account, api_key: first } = await signUp(client)
    promises.working.set(first.id, { account, key: first.key })
    acknowledge()
    for (let more = below(4); more > 0; more--) {
      const { id, key } = await makeKey(client, first.key)
      promises.working.set(id, { account, key })
      acknowledge()
      if (below(2) === 0) continue
      // From here until the answer nobody knows: neither is promised.
      promises.working.delete(id)
      const { status } = await client.retry({ method: 'DELETE', path: `/v1/keys/${id}`, key: first.key })
      assert.equal(status, 204)
      promises.revoked.add(key)
      acknowledge()
    }
  }
}

/** More with STATIC_CRASH=all. */
const ROUNDS = process.env['STATIC_CRASH'] === 'all' ? 60 : IS_WHOLE ? 3 : 2

/** Every promise made so far is kept. */
async function check(client: Client, promises: Promises): Promise<void> {
  const lost: string[] = []
  const wanted = [
    ...[...promises.working.values()].map(({ account, key }) => ({ key, account, expected: 200 })),
    ...[...promises.revoked].map((key) => ({ key, account: '', expected: 401 })),
  ]
  const line = [...wanted]
  await Promise.all(
    Array.from({ length: WRITERS * 2 }, async () => {
      for (let next = line.pop(); next !== undefined; next = line.pop()) {
        const { status, text } = await client.retry({ path: '/v1/accounts/me', key: next.key })
        if (status !== next.expected || !text.includes(next.account)) lost.push(`${next.expected} became ${status}`)
      }
    }),
  )
  assert.deepEqual(lost, [], `${lost.length} of ${wanted.length} acknowledged writes were lost`)
}

async function crashRounds(rounds: number, dataDir: string, database: string | undefined): Promise<Promises> {
  const below = randomBelow(SEED)
  const all: Promises = { working: new Map(), revoked: new Set(), acknowledged: 0 }
  let last: Promises = { working: new Map(), revoked: new Set(), acknowledged: 0 }
  for (let round = 0; round <= rounds; round++) {
    // It starts at all: the database opens.
    await using server = await startServer({ workspace, dataDir, database, settings: QUICK, logLevel: 'silent' })
    using client = makeClient(server.url, workspace.ca, { connections: WRITERS * 2 })
    await check(client, round === rounds ? all : last)
    if (round === rounds) break

    const fresh: Promises = { working: new Map(), revoked: new Set(), acknowledged: 0 }
    const enough = 1 + below(MOST_WRITES)
    const { promise: killed, resolve } = Promise.withResolvers<void>()
    const watched: Promises = new Proxy(fresh, {
      set(target, name, value) {
        if (name === 'acknowledged' && value >= enough) void server.end('SIGKILL').then(() => resolve())
        return Reflect.set(target, name, value)
      },
    })
    const writers = Array.from({ length: WRITERS }, () => write(client, below, watched))
    const ends = await Promise.allSettled(writers)
    await killed
    // The death of the server is the only thing that may end a writer.
    for (const end of ends)
      if (end.status === 'rejected')
        assert.match(`${end.reason.code} ${end.reason}`, /ECONN|EPIPE|socket hang up|aborted/)
    last = fresh
    for (const [id, entry] of fresh.working) all.working.set(id, entry)
    for (const key of fresh.revoked) all.revoked.add(key)
    all.acknowledged += fresh.acknowledged
  }
  return all
}

const promise = (database: string, writes: number): string =>
  `promise T1: API on ${database}, seed ${SEED}: ${writes} acknowledged writes over ${ROUNDS} kills, 0 lost`

describe(`kill -9 during writes, seed ${SEED}`, () => {
  test(`SQLite, ${ROUNDS} rounds: nothing acknowledged is lost and the file is intact`, async (t) => {
    const dataDir = workspace.directory('sqlite')
    const { acknowledged } = await crashRounds(ROUNDS, dataDir, undefined)
    t.diagnostic(promise('SQLite', acknowledged))
    using file = new DatabaseSync(join(dataDir, 'api.sqlite'))
    assert.deepEqual(file.prepare('pragma integrity_check').all().map(Object.values), [['ok']])
    assert.deepEqual(file.prepare('pragma foreign_key_check').all(), [])
  })

  test(`PostgreSQL, ${ROUNDS} rounds: nothing acknowledged is lost`, async (t) => {
    await using database = await makeDatabase()
    const { acknowledged } = await crashRounds(ROUNDS, workspace.directory('postgres'), database.url)
    t.diagnostic(promise('PostgreSQL', acknowledged))
  })
})
