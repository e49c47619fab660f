/** Damage to one channel while rows are behind the log: the other channels, the sweep and the next start go on. */
import assert from 'node:assert/strict'
import { closeSync, openSync, writeSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import type { SqliteStore } from '../../src/store/sqlite/store.ts'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import { SqliteRows } from '../../src/store/sqlite/rows.ts'
import { openDatabase } from '../../src/store/sqlite/schema.ts'
import { RETENTION, ChannelFixture, accepted, crashed, hex16, sha256, temporaryFile } from './channel-fixture.ts'

const OTHER = hex16('other')
const PAGE_BYTES = 4096
const UNAVAILABLE = { code: 'unavailable' }

const open = async (t: TestContext, path: string): Promise<ChannelFixture & { store: SqliteStore }> => {
  const store = await openSqliteStore({ path, retention: RETENTION }, () => undefined)
  t.after(() => store.close())
  return new ChannelFixture(store, []) as ChannelFixture & { store: SqliteStore }
}

const sweep = (world: ChannelFixture): Promise<unknown> => world.run('sweep', { now: world.now })

/** A message in the other channel. */
const sayThere = async (world: ChannelFixture, counter: number): Promise<number> =>
  accepted(await world.run('append', world.message('zoe', { channel: OTHER, slot: 0, counter })))

/** Two channels of which nothing is left to be written. */
async function settled(t: TestContext, path: string, ...others: readonly string[]): Promise<ChannelFixture> {
  const world = await open(t, path)
  await world.create('zoe', { channel: OTHER, name: 'acme/support/other' })
  await world.found('alice', 'bob', ...others)
  await sweep(world)
  return world
}

/** Makes a leaf of a table or index unreadable. */
function breakPage(path: string, name: string, at: number): void {
  const db = new DatabaseSync(path)
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  const pages = db.prepare(`SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path`).all(name)
  db.close()
  const page = Number(pages.at(at)?.['pageno'])
  const file = openSync(path, 'r+')
  writeSync(file, Uint8Array.of(0x77), 0, 1, (page - 1) * PAGE_BYTES)
  closeSync(file)
}

test('a page of one late channel that cannot be read fails neither the others nor the sweep', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path, ...Array.from({ length: 120 }, (_, at) => `member ${at}`))
  accepted(await world.say('bob'))
  const left = await crashed(world.store, path, 'left')
  breakPage(left, 'members', 1)
  for (const counter of [1, 2]) {
    const again = await open(t, left)
    await sayThere(again, counter)
    await sweep(again)
    await again.create('alice', { channel: hex16(`new ${counter}`), name: `acme/support/${counter}` })
    assert.equal(
      (
        await again.run('owned', {
          account: 'account of zoe',
          skip: 0,
          maxChannels: 9,
          maxMembersPerChannel: 0,
          maxMembers: 0,
        })
      ).total,
      1,
    )
    await assert.rejects(again.say('bob', { slot: 1, counter: 2 }), UNAVAILABLE)
    await assert.rejects(again.standing('bob'), UNAVAILABLE)
    assert.equal(again.store.healthy(), false)
    await again.store.close()
  }
})

test('the relay starts although a page of entries whose effects were not stored cannot be read', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  await sayThere(world, 1)
  await world.chatter('bob', 120)
  for (let counter = 2; counter <= 40; counter++) await sayThere(world, counter)
  const left = await crashed(world.store, path, 'left')
  breakPage(left, 'entries', 1)
  const again = await open(t, left)
  assert.equal(await sayThere(again, 41), 41)
  assert.equal(again.store.healthy(), false)
  await sweep(again)
  await assert.rejects(again.standing('bob'), UNAVAILABLE)
})

test('the relay starts although the last page of entries cannot be read', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  for (let counter = 1; counter <= 5; counter++) await sayThere(world, counter)
  await sweep(world)
  await world.chatter('bob', 60)
  const left = await crashed(world.store, path, 'left')
  breakPage(left, 'entries', -1)
  const again = await open(t, left)
  assert.equal((await again.read('zoe', 0, { channel: OTHER })).entries.length, 5)
  await assert.rejects(again.standing('bob'), UNAVAILABLE)
  assert.equal(again.store.healthy(), false)
})

test('the backlog does not grow because a channel is damaged', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  accepted(await world.say('bob'))
  const left = await crashed(world.store, path, 'left')
  const db = new DatabaseSync(left)
  db.exec(`UPDATE entries SET body = x'00' WHERE sequence = (SELECT max(sequence) FROM entries)`)
  db.close()
  const again = await open(t, left)
  await sweep(again)
  assert.equal(again.store.healthy(), false)
  await sayThere(again, 1)
  await again.store.close()
  const after = new DatabaseSync(left)
  const { stored, last } = after
    .prepare('SELECT sequence AS stored, (SELECT max(sequence) FROM entries) AS last FROM stored')
    .get() as { stored: number; last: number }
  after.close()
  assert.equal(stored, last)
  await assert.rejects((await open(t, left)).standing('bob'), UNAVAILABLE)
})

test('writing the backlog does not fill the memory', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  for (let at = 0; at < 20; at++) {
    const channel = hex16(`busy ${at}`)
    await world.create('zoe', { channel, name: `acme/busy/${at}` })
    accepted(await world.run('append', world.message('zoe', { channel, slot: 0, counter: 1 })))
  }
  const left = await crashed(world.store, path, 'left')
  const db = openDatabase(left)
  t.after(() => db.close())
  const cachedBytes = 20_000
  const rows = new SqliteRows(db, sha256, RETENTION.entryMs, { cachedBytes })
  rows.store()
  assert.ok(rows.channels.cached.bytes <= cachedBytes, `${rows.channels.cached.bytes} bytes`)
  assert.equal(rows.owned.list('account of zoe', 0, 100).channels.filter(({ lastIndex }) => lastIndex === 1).length, 20)
})

test('the sweep goes on with the others when a channel that is due is damaged', async (t) => {
  const path = temporaryFile(t)
  const world = await settled(t, path)
  accepted(await world.say('bob'))
  world.now += 1
  await sayThere(world, 1)
  await world.store.close()
  const db = new DatabaseSync(path)
  db.exec(`UPDATE channels SET guest_count = 5 WHERE id = x'${world.channel}'`)
  db.close()
  const again = await open(t, path)
  again.now = world.now + RETENTION.entryMs
  assert.deepEqual(await sweep(again), { removed: 1 })
  assert.equal(again.store.healthy(), false)
  assert.deepEqual(await sweep(again), { removed: 0 })
})
