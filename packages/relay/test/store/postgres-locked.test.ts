/**
 * Channels that another node keeps locked, as one that was cut off in the middle of a transaction does for 5 s. Calls
 * that wait for a lock are refused in the end: if they are accepted, the others were answered long before.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import type { PostgresStore } from '../../src/store/postgres/store.ts'
import { emptyScratch, openScratch, type Scratch } from '../support/postgres.ts'
import { ChannelFixture, RETENTION, accepted, agentId, assertChain, hex16, id16 } from './channel-fixture.ts'

interface Locking {
  readonly scratch: Scratch
  readonly store: PostgresStore
  /** The channel that gets locked. */
  readonly locked: ChannelFixture
  readonly free: ChannelFixture
  /** Runs SQL in a transaction that keeps locks until `release`. */
  readonly hold: (sql: string) => Promise<{ readonly release: () => Promise<void> }>
}

async function open(t: TestContext): Promise<Locking> {
  const scratch = await emptyScratch()
  const store = await openScratch(scratch, RETENTION, () => {}, { lanes: 1 })
  t.after(() => store.close())
  const locked = new ChannelFixture(store, [])
  await locked.found('alice', 'bob')
  const free = Object.assign(new ChannelFixture(store, []), { channel: hex16('free') })
  await free.create('carol', { name: 'acme/support/free' })
  const hold = async (sql: string): Promise<{ release: () => Promise<void> }> => {
    const other = new pg.Client({ connectionString: scratch.url, options: '-c search_path=static_relay' })
    await other.connect()
    await other.query('begin')
    await other.query(sql)
    let ended: Promise<void> | undefined
    const release = (): Promise<void> => (ended ??= other.end())
    t.after(release)
    return { release }
  }
  return { scratch, store, locked, free, hold }
}

const lockRow = (channel: string): string => `select 1 from channels where id = '\\x${channel}' for update`

test('a locked channel does not delay others of the same batch, and keeps the order of its own messages', async (t) => {
  const { locked, free, hold } = await open(t)
  accepted(await locked.say('alice'))
  const { release } = await hold(lockRow(locked.channel))
  const late = [2, 3].map((counter) => locked.say('alice', { counter, messageId: id16(`late ${counter}`) }))
  accepted(await free.say('carol'))
  // Later ones do not overtake those that wait, and do not delay others either.
  late.push(locked.say('alice', { counter: 4, messageId: id16('late 4') }))
  accepted(await free.say('carol'))
  const { entries } = await locked.read('alice', 0)
  assert.equal(entries.length, 2)
  await release()
  assert.deepEqual((await Promise.all(late)).map(accepted), [3, 4, 5])
  // Back among the others.
  assert.equal(accepted(await locked.say('alice', { counter: 5 })), 6)
  assertChain(locked.channel, (await locked.read('alice', 0)).entries)
})

test('acknowledgements and commits wait for a locked channel without delaying others', async (t) => {
  const { scratch, locked, free, hold } = await open(t)
  accepted(await locked.say('alice'))
  const { release } = await hold(lockRow(locked.channel))
  const late = [locked.ack('bob', 2), locked.commit('alice', { adds: ['dave'] })]
  accepted(await free.say('carol'))
  await release()
  await Promise.all(late)
  const cursor = `select cursor_index from static_relay.members where agent = '\\x${agentId('bob')}'`
  assert.deepEqual(await scratch.query(cursor), [['2']])
  assert.equal((await locked.read('alice', 0)).entries.length, 3)
})

test('a lock of names does not delay messages of the same batch', async (t) => {
  const { store, free, hold } = await open(t)
  const { release } = await hold('select 1 from locks for update')
  const another = Object.assign(new ChannelFixture(store, []), { channel: hex16('another') })
  const created = another.create('carol', { name: 'acme/support/another' })
  accepted(await free.say('carol'))
  await release()
  await created
  accepted(await another.say('carol'))
})

test('a message does not overtake one of its channel that waits behind another lock', async (t) => {
  const { store, locked, free, hold } = await open(t)
  accepted(await locked.say('alice'))
  const names = await hold('select 1 from locks for update')
  const another = Object.assign(new ChannelFixture(store, []), { channel: hex16('another') })
  const created = another.create('carol', { name: 'acme/support/another' })
  accepted(await free.say('carol'))
  const row = await hold(lockRow(locked.channel))
  const second = locked.say('alice', { counter: 2, messageId: id16('second') })
  accepted(await free.say('carol'))
  // Its channel is free again, but it waits in line behind the new channel.
  await row.release()
  const third = locked.say('alice', { counter: 3, messageId: id16('third') })
  accepted(await free.say('carol'))
  await names.release()
  await created
  assert.deepEqual([accepted(await second), accepted(await third)], [3, 4])
})
