/** What follows from entries is written later than they are; whatever happens in between, nothing is lost. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import type { Store } from '../../src/ports.ts'
import { copyDatabase } from '../../src/store/sqlite/backup/copy.ts'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import {
  RETENTION,
  ChannelFixture,
  accepted,
  agentId,
  assertChain,
  crashed,
  guest,
  hex16,
  reopened,
  rowsIn,
  temporaryFile,
} from './channel-fixture.ts'

const open = async (t: TestContext, path: string): Promise<Store> => {
  const store = await openSqliteStore({ path, retention: RETENTION }, () => undefined)
  t.after(() => store.close())
  return store
}

/** A channel with three members of which nothing is left to be written. */
async function settled(t: TestContext, path: string): Promise<ChannelFixture> {
  const world = new ChannelFixture(await open(t, path), [])
  await world.found('alice', 'bob', 'carol')
  accepted(await world.say('bob'))
  await sweep(world)
  return world
}

const sweep = (world: ChannelFixture): Promise<unknown> => world.run('sweep', { now: world.now })

/** One value from a file that no store has open. */
function value(path: string, sql: string): unknown {
  const db = new DatabaseSync(path)
  try {
    return Object.values(db.prepare(sql).get() ?? {})[0]
  } finally {
    db.close()
  }
}

const LAST = 'SELECT last_index FROM channels'
const COUNTER = `SELECT counter FROM senders WHERE agent = x'${agentId('bob')}'`

test('messages write neither the row of their channel nor that of their sender; the next sweep does', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  const last = accepted(await world.say('bob'))
  const before = await crashed(world.store, path, 'before')
  await sweep(world)
  const after = await crashed(world.store, path, 'after')
  assert.deepEqual([value(before, LAST), value(before, COUNTER)], [last - 1, 1])
  assert.deepEqual([value(after, LAST), value(after, COUNTER)], [last, 2])
})

test('values that do not follow from entries are written with them', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  // The rows of other senders must not stay behind that of the channel.
  accepted(await world.say('bob'))
  accepted(await world.say('carol', { actor: guest('carol') }))
  accepted(await world.say('bob', { control: true }))
  accepted(await world.commit('alice', { owner: 'alice', standby: 'bob' }))
  accepted(await world.commit('bob', { owner: 'bob', guestLimit: 7 }))
  const left = await crashed(world.store, path, 'left')
  await world.store.close()
  reopened(left)
  assert.deepEqual(rowsIn(left), rowsIn(path))
  assert.equal(value(left, 'SELECT guest_count FROM channels'), 1)
  assert.equal(value(left, 'SELECT guest_limit FROM channels'), 7)
  assert.equal(value(left, `SELECT free FROM senders WHERE agent = x'${agentId('bob')}'`), 1)
})

test('after a crash, decisions rest on the entries whose effects were not stored', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  await world.chatter('bob', 100)
  const sent = world.message('bob', { counter: 102 })
  const index = accepted(await world.run('append', sent))
  const left = await crashed(world.store, path, 'left')
  const again = new ChannelFixture(await open(t, left), [])
  // Without loading the channel first.
  const { lastIndex, lastCounter } = await again.stand('bob')
  assert.deepEqual([lastIndex, lastCounter], [index, 102])
  assert.deepEqual(await again.run('append', sent), { index, charged: false })
  assertChain(again.channel, (await again.read('alice', 0)).entries)
  // What is cut afterwards is taken off the sizes, which then are as if nothing had happened.
  for (const each of [world, again]) {
    for (const name of ['alice', 'bob', 'carol']) await each.ack(name, index)
    await sweep(each)
    await each.store.close()
  }
  assert.deepEqual(rowsIn(left), rowsIn(path))
  assert.equal(value(left, 'SELECT count(*) FROM entries'), 0)
})

test('a crash directly after a part of the log was cut leaves the same as no crash', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  await world.chatter('bob', 100)
  accepted(await world.say('alice'))
  for (const name of ['alice', 'bob', 'carol']) await world.ack(name, 80)
  accepted(await world.say('alice'))
  const left = await crashed(world.store, path, 'left')
  await world.store.close()
  reopened(left)
  assert.deepEqual(rowsIn(left), rowsIn(path))
})

test('a failed transaction undoes nothing that was answered before', async (t) => {
  const path = temporaryFile(t)
  const first = await settled(t, path)
  await first.store.close()
  const db = new DatabaseSync(path)
  db.exec(
    `CREATE TRIGGER planted BEFORE INSERT ON entries WHEN NEW.body = x'bad0' BEGIN SELECT RAISE(ABORT, 'planted'); END`,
  )
  db.close()
  const world = new ChannelFixture(await open(t, path), [])
  world.head = 1
  world.recount('bob', 1)
  const last = accepted(await world.say('bob'))
  const bad = world.message('alice', { ciphertext: Uint8Array.of(0xba, 0xd0), counter: 1 })
  // One fails alone, the other with the rows of the first one in its transaction.
  await assert.rejects(world.run('append', bad))
  await assert.rejects(Promise.all([sweep(world), world.run('append', bad)]))
  assert.deepEqual([(await world.stand('bob')).lastIndex, (await world.stand('bob')).lastCounter], [last, 2])
  await sweep(world)
  const left = await crashed(world.store, path, 'left')
  assert.deepEqual([value(left, LAST), value(left, COUNTER)], [last, 2])
})

test('a backup made in between holds everything', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  await world.chatter('bob', 20)
  await world.store.backup?.(`${path}.copy`)
  assert.equal(value(`${path}.copy`, COUNTER), 1)
  reopened(`${path}.copy`)
  await world.store.close()
  assert.deepEqual(rowsIn(`${path}.copy`), rowsIn(path))
})

test('a copy of a stopped relay leaves rows that are behind to the relay, which knows how long entries are kept', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  await world.chatter('bob', 20)
  const left = await crashed(world.store, path, 'left')
  await copyDatabase(left, `${left}.copy`)
  assert.deepEqual([value(left, COUNTER), value(`${left}.copy`, COUNTER)], [1, 1])
})

test('a channel with a damaged entry whose effects were not stored fails alone, whenever it is used', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  const other = hex16('other')
  await world.create('alice', { channel: other, name: 'acme/support/other' })
  const sent = await world.chatter('bob', 3)
  accepted(await world.run('append', world.message('alice', { channel: other, slot: 0, counter: 1 })))
  for (const change of ['counter = counter + 1', `body = x'00'`]) {
    const left = await crashed(world.store, path, change.slice(0, 4))
    const db = new DatabaseSync(left)
    const { changes } = db.prepare(`UPDATE entries SET ${change} WHERE key & 0xfffffffff = ${accepted(sent[1]!)}`).run()
    assert.equal(changes, 1)
    db.close()
    for (let times = 0; times < 2; times++) {
      const store = await open(t, left)
      const again = new ChannelFixture(store, [])
      await sweep(again)
      await assert.rejects(again.standing('bob'), { code: 'unavailable' })
      await assert.rejects(again.run('append', again.message('bob', { slot: 1, counter: 5 })), { code: 'unavailable' })
      const counter = 2 + times
      accepted(await again.run('append', again.message('alice', { channel: other, slot: 0, counter })))
      assert.equal(store.healthy(), false)
      await store.close()
    }
  }
})

test('a file that does not know what was stored is not opened', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  await world.store.close()
  const db = new DatabaseSync(path)
  db.exec('UPDATE stored SET sequence = sequence + 1')
  db.close()
  await assert.rejects(open(t, path), { code: 'store_corrupt' })
})
