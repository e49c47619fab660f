/** Nodes over one PostgreSQL: answers to COMMIT that are lost, long transactions, cursors, and large acknowledgements. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { OutcomeUnknown, type StoreEvent } from '../../src/ports.ts'
import { checksum } from '../../src/store/checksum.ts'
import { Session } from '../../src/store/postgres/session.ts'
import type { PostgresStore } from '../../src/store/postgres/store.ts'
import { type Scratch, emptyScratch, openScratch } from '../support/postgres.ts'
import {
  ChannelFixture,
  RETENTION,
  accepted,
  agentId,
  assertChain,
  hex16,
  member,
  text,
  welcomeFor,
} from './channel-fixture.ts'

/** A node that trusts what it remembers of cursors. */
async function add(t: TestContext, scratch: Scratch, events: StoreEvent[] = []): Promise<PostgresStore> {
  const store = await openScratch(scratch, RETENTION, (event) => events.push(event), { lanes: 1, freshMs: 1e9 })
  t.after(() => store.close())
  return store
}

/** How a message is committed: by the one statement for messages, or by the COMMIT of a transaction. */
const WAYS = ['statement', 'COMMIT'] as const

/**
 * The next message's commit loses its connection: `meanwhile` says what happens before that, and may let it be done.
 */
function loseCommit(
  t: TestContext,
  way: (typeof WAYS)[number],
  meanwhile: (commit: () => Promise<unknown>, session: Session) => Promise<unknown>,
): void {
  const [run, rows] = [Reflect.get(Session.prototype, 'run'), Reflect.get(Session.prototype, 'rows')]
  const lose = async (session: Session, commit: () => Promise<unknown>): Promise<never> => {
    for (const mocked of [runs, statements]) mocked.mock.restore()
    await meanwhile(commit, session)
    await session.end()
    throw new Error('Connection terminated unexpectedly')
  }
  const runs = t.mock.method(Session.prototype, 'run', async function (this: Session, text: string) {
    return text === 'COMMIT' ? lose(this, () => run.call(this, text)) : run.call(this, text)
  })
  const statements = t.mock.method(
    Session.prototype,
    'rows',
    async function (this: Session, ...words: Parameters<Session['rows']>) {
      if (!words[0].text.includes('is_current')) return rows.call(this, ...words)
      // As if what the node remembers were not current.
      return way === 'COMMIT' ? [[false]] : lose(this, () => rows.call(this, ...words))
    },
  )
}

for (const [way, isDone] of WAYS.flatMap((each) => [[each, true] as const, [each, false] as const])) {
  test(`a message whose ${way} lost its connection ${isDone ? 'after' : 'before'} it was done is answered and told once`, async (t) => {
    const events: StoreEvent[] = []
    const world = new ChannelFixture(await add(t, await emptyScratch(), events), events)
    await world.found('alice', 'bob')
    await world.say('alice')
    world.told()
    loseCommit(t, way, async (commit) => isDone && (await commit()))
    const request = world.message('alice', { counter: 2 })
    const result = await world.run('append', request)
    assert.equal(accepted(result), 3)
    assert.equal('repeated' in result, false)
    assert.deepEqual(
      world.told().map((event) => event.type === 'appended' && event.entry.index),
      [3],
    )
    assert.equal(accepted(await world.run('append', request)), 3)
    const { entries } = await world.read('bob', 1)
    assert.deepEqual(
      entries.map(({ index }) => index),
      [2, 3],
    )
    assertChain(world.channel, (await world.read('alice', 0)).entries)
  })
}

test('the store says so if it cannot know whether a vote was stored, and does it once', async (t) => {
  const events: StoreEvent[] = []
  const world = new ChannelFixture(await add(t, await emptyScratch(), events), events)
  await world.found('alice', 'bob')
  const { position } = await world.run('notices', { after: undefined, limit: 9 })
  const slot = world.head
  accepted(await world.commit('bob'))
  world.told()
  loseCommit(t, 'COMMIT', (commit) => commit())
  await assert.rejects(world.reject(member('alice'), slot), OutcomeUnknown)
  assert.deepEqual(world.told(), [])
  const { events: found } = await world.run('notices', { after: position, limit: 9 })
  assert.deepEqual(
    found.map(({ type }) => type),
    ['rejected'],
  )
  assert.deepEqual(await world.reject(member('alice'), slot), { rejected: true, votes: 1, needed: 2 })
  assert.deepEqual(world.told(), [])
})

test('a read whose connection is lost is retried', async (t) => {
  const world = new ChannelFixture(await add(t, await emptyScratch()), [])
  await world.found('alice', 'bob')
  loseCommit(t, 'COMMIT', () => Promise.resolve())
  assert.equal((await world.read('alice', 0)).entries.length, 1)
})

for (const way of WAYS) {
  test(`a message whose ${way} lost its connection while another node took its place is stored after that`, async (t) => {
    const scratch = await emptyScratch()
    const [one, other] = [await add(t, scratch), await add(t, scratch)]
    const [world, twin] = [new ChannelFixture(one, []), new ChannelFixture(other, [])]
    await world.found('alice', 'bob')
    twin.head = world.head
    loseCommit(t, way, async (_commit, session) => {
      // Its locks go with its connection.
      await session.end()
      assert.equal(accepted(await twin.say('bob', { messageId: new Uint8Array(16).fill(9) })), 2)
    })
    assert.equal(accepted(await world.say('alice')), 3)
  })
}

for (const way of WAYS) {
  test(`messages whose ${way} lost its connection are not taken for stored because one of them was stored by another node`, async (t) => {
    const scratch = await emptyScratch()
    const [one, other] = [await add(t, scratch), await add(t, scratch)]
    const [world, twin] = [new ChannelFixture(one, []), new ChannelFixture(other, [])]
    const quiet = Object.assign(new ChannelFixture(one, []), { channel: hex16('quiet') })
    await world.found('alice', 'bob')
    await quiet.create('carol', { name: 'acme/support/quiet' })
    await quiet.say('carol')
    const request = world.message('alice')
    loseCommit(t, way, async (_commit, session) => {
      await session.end()
      // The sender has repeated it elsewhere: it takes the same place, after the same entries.
      assert.equal(accepted(await twin.run('append', { ...request, now: request.now + 1 })), 2)
    })
    const both = await Promise.all([world.run('append', request), quiet.say('carol')])
    assert.deepEqual(both.map(accepted), [2, 2])
    const { entries } = await quiet.read('carol', 0)
    assert.deepEqual(
      entries.map(({ index }) => index),
      [1, 2],
    )
  })
}

test('a notice arrives once, however long another transaction runs', async (t) => {
  const scratch = await emptyScratch()
  const store = await add(t, scratch)
  const world = new ChannelFixture(store, [])
  await world.found('alice', 'bob')
  let { position } = await store.run('notices', { after: undefined, limit: 10 })
  const slow = new pg.Client({ connectionString: scratch.url })
  await slow.connect()
  t.after(() => slow.end())
  await slow.query('begin; select pg_current_xact_id()')
  const next = async (limit = 10): Promise<readonly string[]> => {
    const types: string[] = []
    for (let more = true; more;) {
      const page = await store.run('notices', { after: position, limit })
      types.push(...page.events.map(({ type }) => type))
      ;({ position, more } = page)
    }
    return types
  }
  accepted(await world.commit('bob', { adds: ['carol'], welcomes: [] }))
  await world.reject(member('alice'), world.head - 1)
  assert.deepEqual(await next(), ['rejected'])
  assert.deepEqual(await next(), [], 'told again while the transaction runs')
  // What the slow one wrote comes when it is committed, on pages of one.
  const notice = (type: string): string => `('{"type":"${type}","checksum":${checksum([`{"type":"${type}"}`])}}')`
  await slow.query(`insert into static_relay.notices (event) values ${notice('slow 1')}, ${notice('slow 2')}`)
  await world.run('liftBar', { actor: member('alice'), channel: world.channel, agent: agentId('bob') })
  assert.deepEqual(await next(1), ['barLifted'])
  await slow.query('commit')
  assert.deepEqual(await next(1), ['slow 1', 'slow 2'])
  assert.deepEqual(await next(1), [])
})

test('a damaged notice is noticed and never served', async (t) => {
  const scratch = await emptyScratch()
  const damage: unknown[] = []
  const store = await openScratch(scratch, RETENTION, () => {}, { onDamage: (error) => damage.push(error) })
  t.after(() => store.close())
  const world = new ChannelFixture(store, [])
  await world.found('alice', 'bob')
  const { position: after } = await store.run('notices', { after: undefined, limit: 10 })
  accepted(await world.commit('bob', { adds: ['carol'], welcomes: [] }))
  await world.reject(member('alice'), world.head - 1)
  const flip = (from: string, to: string): Promise<unknown> =>
    scratch.query(`update static_relay.notices set event = replace(event, '${from}', '${to}')`)
  // One bit of an agent's id, of a key, and of the checksum's name.
  const id = agentId('carol')
  const other = `${(Number.parseInt(id[0] ?? '', 16) ^ 1).toString(16)}${id.slice(1)}`
  const flips: [string, string][] = [
    [id, other],
    ['"undoneAdds"', '"undoneAddr"'],
    ['"checksum"', '"checksul"'],
  ]
  for (const [from, to] of flips) {
    await flip(from, to)
    await assert.rejects(store.run('notices', { after, limit: 10 }), { code: 'unavailable' }, from)
    await flip(to, from)
  }
  assert.equal(damage.length, flips.length)
  assert.deepEqual(
    (await store.run('notices', { after, limit: 10 })).events.map(({ type }) => type),
    ['rejected'],
  )
})

test('a commit on one node does not set back a cursor that another node has moved', async (t) => {
  const scratch = await emptyScratch()
  const [one, other] = [await add(t, scratch), await add(t, scratch)]
  const [world, twin] = [new ChannelFixture(one, []), new ChannelFixture(other, [])]
  await world.found('alice', 'bob', 'carol')
  await world.chatter('alice', 5)
  await twin.ack('bob', 6)
  // The first node remembers bob's cursor from before that.
  accepted(await world.commit('alice', { removes: ['bob'] }))
  assert.equal((await twin.stand('bob')).cursor.index, 6)
  assert.deepEqual(
    (await twin.read('bob', 6)).entries.map(({ index }) => index),
    [7],
  )
})

test('an acknowledgement of many channels asks PostgreSQL no more often than of a few', async (t) => {
  const scratch = await emptyScratch()
  const store = await add(t, scratch)
  const worlds: ChannelFixture[] = []
  const CHANNELS = 40
  for (let at = 0; at < CHANNELS; at++) {
    const label = `channel ${at}`
    const world = Object.assign(new ChannelFixture(store, []), { channel: hex16(label) })
    accepted({ index: 0, ...(await world.create('alice', { name: `acme/support/c${at}` })) })
    accepted(await world.commit('alice', { adds: ['bob'] }))
    await world.chatter('alice', 3)
    worlds.push(world)
  }
  const second = await add(t, scratch)
  const asked: string[] = []
  const rows = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', function (this: Session, ...parts: Parameters<Session['rows']>) {
    asked.push(parts[0].text)
    return rows.apply(this, parts)
  })
  const positions = worlds.map(({ channel }) => ({ channel, index: 2 }))
  await second.run('ack', { agent: agentId('bob'), positions })
  const locks = asked.filter((text) => text.includes('FOR UPDATE')).length
  assert.ok(locks <= 4, `the channels were locked ${locks} times`)
  for (const world of worlds) assert.equal((await world.stand('bob')).cursor.index, 2)
})

test('many channels that are created at once are locked and decided once', async (t) => {
  const store = await add(t, await emptyScratch())
  let locks = 0
  const rows = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', function (this: Session, ...parts: Parameters<Session['rows']>) {
    if (parts[0].text.startsWith('SELECT c.number, c.version')) locks += 1
    return rows.apply(this, parts)
  })
  const created = Array.from({ length: 30 }, (_, at) => {
    const world = Object.assign(new ChannelFixture(store, []), { channel: hex16(`channel ${at}`) })
    return world.create(at % 2 ? 'alice' : 'bob', { name: `acme/support/c${at}`, maxChannels: 14 })
  })
  const refused = (await Promise.all(created)).flatMap((result) => ('refused' in result ? [result.refused] : []))
  // Each account wants 15.
  assert.deepEqual(refused, ['not_allowed', 'not_allowed'])
  assert.equal(locks, 1)
})

test('a node knows how many use the database', async (t) => {
  const scratch = await emptyScratch()
  const open = (): Promise<PostgresStore> => openScratch(scratch, RETENTION, () => {}, { examineMs: 20 })
  const first = await open()
  t.after(() => first.close())
  const second = await open()
  while (first.nodes?.() !== 2) await new Promise(setImmediate)
  await second.close()
  while (first.nodes?.() !== 1) await new Promise(setImmediate)
})

test('an agent with many Welcomes does not make the batch run once for each', async (t) => {
  const store = await add(t, await emptyScratch())
  for (let at = 0; at < 20; at++) {
    const world = Object.assign(new ChannelFixture(store, []), { channel: hex16(`channel ${at}`) })
    await world.create('alice', { name: `acme/support/c${at}` })
    accepted(await world.commit('alice', { adds: ['bob'], welcomes: [welcomeFor('bob')], groupInfo: text('group') }))
  }
  const world = new ChannelFixture(store, [])
  await world.create('carol', { name: 'acme/support/other' })
  let locks = 0
  const rows = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', function (this: Session, ...parts: Parameters<Session['rows']>) {
    if (parts[0].text.startsWith('SELECT c.number, c.version')) locks += 1
    return rows.apply(this, parts)
  })
  const [message, { welcomes }] = await Promise.all([
    world.say('carol'),
    store.run('welcomes', { agent: agentId('bob'), after: 0, maxBytes: 1_000_000 }),
  ])
  accepted(message)
  assert.equal(welcomes.length, 20)
  assert.equal(Buffer.from(welcomes[0]?.welcome ?? []).toString(), 'welcome bobgroup')
  assert.ok(locks <= 4, `${locks} times`)
})
