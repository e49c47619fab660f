/** Messages that a node stores in one round trip, on what it remembers, and what other nodes do meanwhile. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import type { StoreEvent } from '../../src/ports.ts'
import { Session } from '../../src/store/postgres/session.ts'
import type { PostgresStore } from '../../src/store/postgres/store.ts'
import { emptyScratch, openScratch, type Scratch } from '../support/postgres.ts'
import { ChannelFixture, RETENTION, accepted, assertChain, hex16, id16, refused } from './channel-fixture.ts'

interface Nodes {
  readonly scratch: Scratch
  /** A channel of alice and bob, which the first node remembers. */
  readonly world: ChannelFixture
  /** The same channel on another node. */
  readonly twin: ChannelFixture
}

async function openNodes(t: TestContext, freshMs = 60_000): Promise<Nodes> {
  const scratch = await emptyScratch()
  const open = (): Promise<PostgresStore> => openScratch(scratch, RETENTION, () => {}, { lanes: 1, freshMs })
  const [first, second] = [await open(), await open()]
  t.after(() => Promise.all([first.close(), second.close()]))
  const world = new ChannelFixture(first, [])
  await world.found('alice', 'bob')
  accepted(await world.say('alice'))
  const twin = Object.assign(new ChannelFixture(second, []), { head: world.head })
  return { scratch, world, twin }
}

/** Statements of the node itself, on a timer: its health, figures and sweep. */
const CARE = /current_setting|min\(oldest_at\)|SKIP LOCKED/

/** Notes the statements that are sent, in order; the first one with `text` waits until it is opened. */
function watch(t: TestContext, text?: string): { sent: string[]; reached: Promise<void>; open: () => void } {
  const sent: string[] = []
  let isHeld = false
  const reached = Promise.withResolvers<void>()
  const opened = Promise.withResolvers<void>()
  const rows = Reflect.get(Session.prototype, 'rows')
  const run = Reflect.get(Session.prototype, 'run')
  t.mock.method(Session.prototype, 'rows', async function (this: Session, ...asked: Parameters<Session['rows']>) {
    if (!CARE.test(asked[0].text)) sent.push(asked[0].text)
    if (text !== undefined && !isHeld && asked[0].text.includes(text)) {
      isHeld = true
      reached.resolve()
      await opened.promise
    }
    return rows.apply(this, asked)
  })
  t.mock.method(Session.prototype, 'run', function (this: Session, ...asked: Parameters<Session['run']>) {
    sent.push(asked[0])
    return run.apply(this, asked)
  })
  return { sent, reached: reached.promise, open: opened.resolve }
}

/** What a statement of a message does. */
function kindOf(text: string): string {
  if (text.includes('LEFT JOIN entries')) return 'read'
  if (text.includes('FROM members')) return 'members'
  if (text.includes('FROM senders')) return 'senders'
  if (text.includes('LEFT JOIN accounts')) return 'account'
  return text.includes('is_current') ? 'store' : text
}

async function indexes(world: ChannelFixture): Promise<number[]> {
  const { entries } = await world.read('alice', 0)
  assertChain(world.channel, entries)
  return entries.map(({ index }) => index)
}

test('messages to a channel that the node remembers take one statement', async (t) => {
  const { world } = await openNodes(t)
  const { sent } = watch(t)
  accepted(await world.say('alice'))
  assert.equal(sent.length, 1, sent.join('\n'))
  for (const result of await world.chatter('bob', 20)) accepted(result)
  assert.equal(sent.length, 2, sent.join('\n'))
  assert.equal((await indexes(world)).length, 23)
})

test('the size of an account that has aged is read behind the message, and the next one waits for it', async (t) => {
  const { world } = await openNodes(t, 1e-6)
  // Answered after the size that was read behind the message before.
  assert.deepEqual(await indexes(world), [1, 2])
  const held = watch(t, 'LEFT JOIN accounts')
  assert.equal(accepted(await world.say('alice')), 3)
  await held.reached
  const next = world.say('alice')
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
  const early = held.sent.map(kindOf)
  held.open()
  assert.equal(accepted(await next), 4)
  assert.deepEqual(early, ['store', 'account'])
  assert.deepEqual(held.sent.map(kindOf), ['store', 'account', 'store'])
})

test('a message is stored and announced even if the size of its account cannot be read behind it', async (t) => {
  const scratch = await emptyScratch()
  const events: StoreEvent[] = []
  const listener = (event: StoreEvent): void => void events.push(event)
  const store = await openScratch(scratch, RETENTION, listener, { lanes: 1, freshMs: 1e-6 })
  t.after(() => store.close())
  const world = new ChannelFixture(store, [])
  await world.found('alice', 'bob')
  accepted(await world.say('alice'))
  // Answered after the size that was read behind that message.
  assert.deepEqual(await indexes(world), [1, 2])
  events.splice(0)
  const rows = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', async function (this: Session, ...asked: Parameters<Session['rows']>) {
    if (!asked[0].text.includes('LEFT JOIN accounts')) return rows.apply(this, asked)
    throw Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' })
  })
  assert.equal(accepted(await world.say('alice')), 3)
  assert.deepEqual(
    events.map((event) => event.type === 'appended' && event.entry.index),
    [3],
  )
})

test('a message that another node stores first is noticed', async (t) => {
  const { world, twin } = await openNodes(t)
  const held = watch(t, 'is_current')
  const message = world.say('alice')
  await held.reached
  const other = twin.run('append', twin.message('bob', { messageId: id16('of the other node') }))
  assert.equal(accepted(await other), 3)
  held.open()
  assert.equal(accepted(await message), 4)
  // For a while, the node reads the channel before each message.
  const before = held.sent.length
  accepted(await world.say('alice'))
  assert.deepEqual(held.sent.slice(before).map(kindOf), ['read', 'members', 'senders', 'store'])
  assert.deepEqual(await indexes(world), [1, 2, 3, 4, 5])
})

test('a message to a channel that the node does not remember takes two round trips', async (t) => {
  const { twin } = await openNodes(t)
  const held = watch(t, 'LEFT JOIN entries')
  const message = twin.say('alice', { counter: 2, messageId: id16('of the other node') })
  await held.reached
  // What came before is of the new connection.
  const start = held.sent.findIndex((text) => kindOf(text) === 'read')
  await new Promise(setImmediate)
  // All before the first is answered.
  const reading = ['read', 'members', 'senders', 'account']
  assert.deepEqual(held.sent.slice(start).map(kindOf), reading)
  held.open()
  assert.equal(accepted(await message), 3)
  accepted(await twin.say('alice', { counter: 3, messageId: id16('and one more') }))
  assert.deepEqual(held.sent.slice(start).map(kindOf), [...reading, 'store', 'store'])
})

test('a channel that changes while a node reads it is read again with a lock', async (t) => {
  const { world, twin } = await openNodes(t)
  const held = watch(t, 'FROM members')
  const isRead = Promise.withResolvers<void>()
  const rows = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', async function (this: Session, ...asked: Parameters<Session['rows']>) {
    const answer = await rows.apply(this, asked)
    if (kindOf(asked[0].text) === 'read') isRead.resolve()
    return answer
  })
  const message = twin.run('append', twin.message('bob', { messageId: id16('of the other node') }))
  await Promise.all([held.reached, isRead.promise])
  assert.equal(accepted(await world.say('alice')), 3)
  await world.ack('bob', 3)
  const before = held.sent.length
  held.open()
  assert.equal(accepted(await message), 4)
  assert.equal(held.sent[before], 'BEGIN')
  assert.deepEqual(await indexes(world), [1, 2, 3, 4])
})

test('a channel that changes even between reading and writing is locked for a while', async (t) => {
  const { world, twin } = await openNodes(t)
  const held = watch(t, 'is_current')
  const message = twin.run('append', twin.message('bob', { messageId: id16('of the other node') }))
  await held.reached
  assert.equal(accepted(await world.say('alice')), 3)
  held.open()
  assert.equal(accepted(await message), 4)
  const before = held.sent.length
  accepted(await twin.run('append', twin.message('bob', { counter: 2, messageId: id16('and one more') })))
  assert.equal(held.sent[before], 'BEGIN')
  assert.deepEqual(await indexes(world), [1, 2, 3, 4, 5])
})

test('an acknowledgement in the same batch does not make a message wait for locks', async (t) => {
  const { world, scratch } = await openNodes(t)
  const { sent } = watch(t)
  const [, message] = await Promise.all([world.ack('bob', 2), world.say('alice')])
  accepted(message)
  assert.equal(kindOf(sent[0] ?? ''), 'store')
  const cursors = await scratch.query('select max(cursor_index) from static_relay.members')
  assert.deepEqual(cursors, [['2']])
})

test('a change of another node that stores no message is noticed', async (t) => {
  const { world, scratch } = await openNodes(t)
  const held = watch(t, 'is_current')
  const message = world.say('alice')
  await held.reached
  await scratch.query('update static_relay.channels set version = version + 1')
  held.open()
  assert.equal(accepted(await message), 3)
  assert.ok(held.sent.includes('BEGIN'))
  assert.deepEqual(await indexes(world), [1, 2, 3])
})

test('nothing is refused because of what another node has changed', async (t) => {
  const { world, twin } = await openNodes(t, 0)
  accepted(await twin.commit('alice', { adds: ['carol'], messageId: id16('of the other node') }))
  // To the node that remembers the channel without this commit, its slot is wrong, and carol unknown.
  accepted(await world.say('alice', { slot: twin.head }))
  accepted(await world.say('carol', { slot: twin.head }))
  const refused = await world.say('alice', { slot: twin.head - 1 })
  assert.deepEqual(refused, { refused: 'epoch_mismatch', head: twin.head })
})

test('a refused message does not keep the others of its batch from being stored at once', async (t) => {
  const { world } = await openNodes(t)
  const other = Object.assign(new ChannelFixture(world.store, []), { channel: hex16('other') })
  await other.create('carol', { name: 'acme/support/other' })
  accepted(await other.say('carol'))
  const { sent } = watch(t)
  const wrong = (): Promise<object> => other.run('append', other.message('carol', { counter: 9 }))
  for (let at = 0; at < 2; at++) {
    const [first, message, last] = await Promise.all([wrong(), world.say('alice'), wrong()])
    for (const each of [first, last]) refused(each, 'out_of_order')
    accepted(message)
  }
  assert.equal(sent.filter((text) => text.includes('is_current')).length, 2, sent.join('\n'))
  const reread = sent.filter((text) => text.includes('FROM members'))
  assert.deepEqual(reread, [], 'what is remembered was read again')
})

test('a message to a damaged channel does not split the batch', async (t) => {
  const { world, scratch } = await openNodes(t)
  const whole = Object.assign(new ChannelFixture(world.store, []), { channel: hex16('whole') })
  await whole.create('carol', { name: 'acme/support/whole' })
  await scratch.query(`update static_relay.channels set bytes = bytes + 1, version = version + 1
    where name = 'acme/support/routing'`)
  const { sent } = watch(t)
  const [damaged, message] = await Promise.allSettled([world.say('alice'), whole.say('carol')])
  assert.equal(damaged.status, 'rejected')
  assert.equal(message.status, 'fulfilled')
  assert.equal(sent.filter((text) => text === 'BEGIN').length, 1, sent.join('\n'))
})

test('a repeated message gets its first answer from a node that remembers the channel', async (t) => {
  const { world, scratch } = await openNodes(t)
  const request = world.message('alice')
  const index = accepted(await world.run('append', request))
  accepted(await world.say('bob'))
  // Later, and its counter is the next one, so that only the id can tell.
  const again = { ...request, counter: request.counter + 1, now: request.now + 1 }
  assert.deepEqual(await world.run('append', again), { index, charged: false })
  assert.deepEqual(await indexes(world), [1, 2, 3, 4])
  assert.deepEqual(await scratch.query('select count(*) from static_relay.ids'), [['4']])
})

/** Lets nodes that are opened now wait for a lock as long as it takes to see them wait, also on a slow machine. */
function waitLong(t: TestContext): void {
  const run = Reflect.get(Session.prototype, 'run')
  t.mock.method(Session.prototype, 'run', function (this: Session, ...[text, ...rest]: Parameters<Session['run']>) {
    return run.call(this, text.replace(/^SET lock_timeout = \d+$/, 'SET lock_timeout = 60000'), ...rest)
  })
}

test('an acknowledgement on another node at the same time is kept', async (t) => {
  waitLong(t)
  const { world, scratch } = await openNodes(t)
  const client = new pg.Client({ connectionString: scratch.url })
  await client.connect()
  t.after(() => client.end())
  // As `ack` does: it marks the channel, without changing its version.
  await client.query('begin; update static_relay.channels set acked = true')
  const { sent } = watch(t)
  const message = world.say('alice')
  const waiting = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while ((await scratch.query(waiting)).length === 0);
  await client.query('commit')
  assert.equal(accepted(await message), 3)
  assert.equal(sent.length, 1, sent.join('\n'))
  assert.deepEqual(await scratch.query('select acked, last_index from static_relay.channels'), [[true, '3']])
  assert.deepEqual(await indexes(world), [1, 2, 3])
})
