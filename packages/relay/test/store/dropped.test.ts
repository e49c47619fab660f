/** What is left of deleted channels in SQLite, and how much of it one sweep deletes. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Store } from '../../src/ports.ts'
import { Ledger } from '../../src/store/ledger/ledger.ts'
import { SqliteRows } from '../../src/store/sqlite/rows.ts'
import { openDatabase } from '../../src/store/sqlite/schema.ts'
import {
  ChannelFixture,
  DAY,
  RETENTION,
  accepted,
  account,
  hex16,
  sha256,
  temporaryFile,
  text,
  welcomeFor,
} from './channel-fixture.ts'

const TABLES = ['entries', 'welcomes', 'group_infos', 'turns', 'slots', 'senders', 'members', 'dropped']

interface Opened {
  readonly world: ChannelFixture
  readonly count: (table: string) => number
  readonly held: (name: string) => number
}

/** A database whose rows the test can count. */
function opened(t: TestContext): Opened {
  const db = openDatabase(temporaryFile(t))
  t.after(() => db.close())
  const rows = new SqliteRows(db, sha256, RETENTION.entryMs)
  const ledger = new Ledger(rows, sha256, RETENTION)
  const store: Store = {
    deployment: { relayId: new Uint8Array(), tokenKey: new Uint8Array() },
    run: async (name, request) => {
      db.exec('BEGIN')
      const { result } = ledger.run(name, request)
      rows.flush()
      db.exec('COMMIT')
      return result
    },
    healthy: () => true,
    durability: () => 'memory',
    close: () => Promise.resolve(),
  }
  return {
    world: new ChannelFixture(store, []),
    count: (table) => Number(db.prepare(`SELECT count(*) AS count FROM ${table}`).get()?.['count']),
    held: (name) => rows.accounts.get(account(name)).bytes,
  }
}

const remove = (world: ChannelFixture, owner: string, channel: string): Promise<object> =>
  world.run('delete', { account: account(owner), channel, name: undefined })

test('one sweep deletes a limited number of rows of a large channel, and many tiny channels', async (t) => {
  const { world, count, held } = opened(t)
  // Tiny channels of one account come first, then a large one of another.
  const tiny = Array.from({ length: 60 }, (_, at) => hex16(`tiny ${at}`))
  for (const [at, channel] of tiny.entries()) {
    await world.create('mallory', { channel, name: `a/b/c${at}` })
    accepted(await world.run('append', world.message('mallory', { channel, slot: 0, counter: 1 })))
  }
  await world.found('alice')
  await world.chatter('alice', 3000)
  for (const channel of tiny) await remove(world, 'mallory', channel)
  await remove(world, 'alice', world.channel)
  const bytes = [held('mallory'), held('alice')]
  assert.ok(bytes.every((each) => each > 0))

  await world.run('sweep', { now: world.now })
  assert.equal(held('mallory'), 0)
  assert.equal(held('alice'), bytes[1])
  const left = count('entries')
  assert.ok(left > 3000 - 2048 && left < 3000, String(left))
  for (let times = 0; times < 4; times++) await world.run('sweep', { now: world.now })
  assert.equal(held('alice'), 0)
  for (const table of TABLES) assert.equal(count(table), 0, table)
})

test('large rows are deleted a limited number of bytes at a time', async (t) => {
  const { world, count, held } = opened(t)
  await world.found('alice')
  await world.chatter('alice', 200, { ciphertext: new Uint8Array(250_000) })
  await remove(world, 'alice', world.channel)
  await world.run('sweep', { now: world.now })
  assert.ok(count('entries') > 0 && held('alice') > 0)
  await world.run('sweep', { now: world.now })
  assert.deepEqual([count('entries'), held('alice')], [0, 0])
})

test('deleting a channel deletes only the rows that others could see; sweeps delete the rest', async (t) => {
  const { world, count } = opened(t)
  await world.found('alice')
  const adds = Array.from({ length: 100 }, (_, at) => `member ${at}`)
  accepted(await world.commit('alice', { adds, groupInfo: text('shared') }))
  accepted(await world.commit('alice', { adds: ['bob'], welcomes: [welcomeFor('bob')], groupInfo: text('shared') }))
  assert.equal((await world.waiting('bob')).length, 1)
  const turns = count('turns')
  assert.equal(turns, 101)
  await remove(world, 'alice', world.channel)
  assert.deepEqual([count('turns'), count('slots'), count('members')], [turns, 2, 0])
  assert.deepEqual(await world.waiting('bob'), [])
  await world.run('sweep', { now: world.now })
  for (const table of TABLES) assert.equal(count(table), 0, table)
})

test('one sweep forgets a limited number of roster records', async (t) => {
  const { world, count, held } = opened(t)
  await world.found('alice')
  const names = Array.from({ length: 249 }, (_, at) => `phantom ${at}`)
  for (let times = 0; times < 20; times++) {
    const removes = times > 0 ? names : []
    const index = accepted(await world.commit('alice', { adds: names, removes, welcomes: [] }))
    await world.ack('alice', index)
  }
  assert.equal(count('turns'), 20 * 249)
  const later = world.now + 8 * DAY
  await world.run('sweep', { now: later })
  const left = count('turns')
  assert.ok(left > 0 && left < 1000, String(left))
  await world.run('sweep', { now: later })
  assert.deepEqual([count('turns'), count('slots'), held('alice')], [0, 0, 0])
})
