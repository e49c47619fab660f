/**
 * How many rows of join requests a call reads. Anyone with a token adds to a queue, and the calls of all agents wait for
 * each other: none may read a whole queue. Rows are counted, not time.
 */
import assert from 'node:assert/strict'
import { StatementSync } from 'node:sqlite'
import { type TestContext, describe, test } from 'node:test'
import type { Store, StoreRequest } from '../../src/ports.ts'
import type { Call } from '../../src/store/call.ts'
import { Session } from '../../src/store/postgres/session.ts'
import { SqliteEngine } from '../../src/store/sqlite/engine.ts'
import { JOIN_SQL } from '../../src/store/sqlite/tables/joins.ts'
import { openDatabase } from '../../src/store/sqlite/schema.ts'
import { emptyScratch, openScratch } from '../support/postgres.ts'
import { ChannelFixture, DAY, RETENTION, agentId, hex16, member, temporaryFile, text } from './channel-fixture.ts'

const INVITES = 4
const JOINERS = 12
const LIMITS = { maxPerInvite: 1000, maxPerOwner: 1000, maxBytes: 1e9 }

/** Counts the rows of join requests that statements return. */
type Count = (t: TestContext, add: (rows: number) => void) => void

interface Engine {
  readonly open: (t: TestContext) => Promise<Store>
  readonly count: Count
}

const ENGINES: Readonly<Record<string, Engine>> = {
  sqlite: {
    open: async (t) => {
      const db = openDatabase(temporaryFile(t))
      const engine = new SqliteEngine(db, RETENTION)
      t.after(() => db.close())
      return storeOf(engine)
    },
    count: (t, add) => {
      for (const method of ['all', 'get'] as const) {
        const read = Reflect.get(StatementSync.prototype, method) as (
          this: StatementSync,
          ...values: unknown[]
        ) => unknown
        t.mock.method(StatementSync.prototype, method, function (this: StatementSync, ...values: unknown[]) {
          const found = read.apply(this, values)
          if (/FROM joins/.test(this.sourceSQL)) add(method === 'all' ? (found as unknown[]).length : found ? 1 : 0)
          return found
        })
      }
    },
  },
  postgres: {
    open: async (t) => {
      const store = await openScratch(await emptyScratch(), RETENTION, () => {}, { lanes: 1 })
      t.after(() => store.close())
      return store
    },
    count: (t, add) => {
      const read = Reflect.get(Session.prototype, 'rows')
      t.mock.method(Session.prototype, 'rows', async function (this: Session, ...asked: Parameters<Session['rows']>) {
        const rows = await read.apply(this, asked)
        if (/FROM joins/.test(asked[0].text)) add(rows.length)
        return rows
      })
    },
  },
}

/** Runs each call at once, in this thread. */
function storeOf(engine: SqliteEngine): Store {
  const run = async (name: string, request: object): Promise<object> => {
    const [answer] = engine.run([{ name, request } as unknown as Call])
    if (!answer || 'failed' in answer) throw new Error(answer?.failed)
    return answer.result
  }
  return { run } as unknown as Store
}

/** The requests of many joiners for each of several invites, half of them for members. */
async function crowd(f: ChannelFixture): Promise<void> {
  await f.found('alice', 'bob')
  for (let at = 0; at < INVITES; at++) {
    await f.invite(`invite ${at}`, { members: at % 2 === 0, maxUses: 1000 })
    for (let joiner = 0; joiner < JOINERS; joiner++) await f.run('requestJoin', joinOf(f, at, `joiner ${joiner}`))
  }
}

function joinOf(f: ChannelFixture, at: number, joiner: string): StoreRequest<'requestJoin'> {
  const owner = at % 2 === 0 ? undefined : agentId('alice')
  const key = { invite: hex16(`invite ${at}`), channel: f.channel, owner, agent: agentId(joiner) }
  return { join: { ...key, box: text('box'), until: f.now + DAY }, ...LIMITS, now: f.now }
}

for (const [name, { open, count }] of Object.entries(ENGINES)) {
  describe(name, () => {
    test('no call reads the requests of a queue that it is not about', async (t) => {
      const f = new ChannelFixture(await open(t), [])
      await crowd(f)
      let rows = 0
      count(t, (more) => (rows += more))
      const readBy = async (call: () => Promise<unknown>): Promise<number> => {
        rows = 0
        await call()
        return rows
      }
      const poll = (fields: Partial<StoreRequest<'takeJoins'>>): Promise<number> => {
        const asked = { actor: member('alice'), channel: f.channel, maxBytes: 100_000, now: f.now }
        return readBy(() => f.run('takeJoins', { ...asked, after: 0, maxRequests: 100, mayWait: true, ...fields }))
      }
      const answer = (at: number, joiner: string): Promise<number> => {
        const key = { invite: hex16(`invite ${at}`), agent: agentId(joiner) }
        return readBy(() => f.run('answerJoin', { owner: agentId('alice'), ...key, code: 'group_full', now: f.now }))
      }
      for (const at of [0, 1]) {
        assert.equal(await answer(at, 'nobody'), 0, 'an answer to no one')
        assert.equal(await answer(at, 'joiner 0'), 1, 'an answer')
        // The one it replaces, what its invite holds, and what the channel does.
        assert.ok((await readBy(() => f.run('requestJoin', joinOf(f, at, 'joiner 0')))) <= 3, 'a request')
      }
      const { joins } = await f.run('takeJoins', {
        actor: member('alice'),
        channel: f.channel,
        after: 0,
        maxRequests: 100,
        maxBytes: 1e6,
        mayWait: false,
        now: f.now,
      })
      assert.equal(joins.length, INVITES * JOINERS)
      const after = joins.at(-1)?.number ?? 0
      assert.equal(await poll({ after }), 0, 'a poll that goes on waiting')
      // The first two of each queue and two boxes; then all of them, but one box. Numbers are one row a queue.
      assert.ok((await poll({ maxRequests: 2 })) <= 8, 'a poll for two')
      assert.ok((await poll({ maxBytes: 1 })) <= INVITES * JOINERS + 3, 'a poll with room for one box')
      assert.equal(await readBy(() => f.leave('bob')), 0, 'a Leave')
      const revoked = { agent: agentId('alice'), id: hex16('invite 3'), now: f.now }
      assert.equal(await readBy(() => f.run('revokeInvite', revoked)), JOINERS, 'a revocation')
    })
  })
}

test('PostgreSQL is not asked once more for each of the requests that come together', async (t) => {
  const store = await openScratch(await emptyScratch(), RETENTION, () => {}, { lanes: 1 })
  t.after(() => store.close())
  const f = new ChannelFixture(store, [])
  await crowd(f)
  let statements = 0
  const read = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', function (this: Session, ...asked: Parameters<Session['rows']>) {
    if (/SELECT.* FROM joins/s.test(asked[0].text)) statements += 1
    return read.apply(this, asked)
  })
  const askAll = (who: string, limits: Partial<typeof LIMITS>): Promise<unknown> => {
    const joiners = Array.from({ length: 64 }, (_, at) => joinOf(f, at % 2, `${who} ${at}`))
    return Promise.all(joiners.map((asked) => f.run('requestJoin', { ...asked, ...limits })))
  }
  await askAll('first', {})
  assert.ok(statements <= 10, `${statements} statements`)
  statements = 0
  await askAll('second', { maxPerOwner: 50 })
  assert.ok(statements <= 20, `${statements} statements if each pushes out another`)
})

test('SQLite finds join requests by indexes, and counts them without reading their rows', (t) => {
  const db = openDatabase(temporaryFile(t))
  t.after(() => db.close())
  for (const [name, sql] of Object.entries(JOIN_SQL)) {
    const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()
    const steps = plan.map(({ detail }) => String(detail)).join('; ')
    assert.doesNotMatch(steps, /SCAN joins/, name)
    if (/^(numbers|weight)/.test(name)) assert.match(steps, /COVERING INDEX/, name)
    // The requests for an invite are few.
    if (name !== 'forInvites') assert.doesNotMatch(steps, /TEMP B-TREE/, name)
  }
})
