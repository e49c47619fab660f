/** A sweep of many channels: it ends, asks PostgreSQL a few times only, and goes on beside damage. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Session } from '../../src/store/postgres/session.ts'
import type { PostgresStore } from '../../src/store/postgres/store.ts'
import { emptyScratch, openScratch, type Scratch } from '../support/postgres.ts'
import { ChannelFixture, RETENTION, accepted, hex16, id16, text, welcomeFor } from './channel-fixture.ts'

async function open(t: TestContext): Promise<{ readonly scratch: Scratch; readonly store: PostgresStore }> {
  const scratch = await emptyScratch()
  const store = await openScratch(scratch, RETENTION, () => {}, { lanes: 1 })
  t.after(() => store.close())
  return { scratch, store }
}

async function channelAt(store: PostgresStore, label: string): Promise<ChannelFixture> {
  const world = Object.assign(new ChannelFixture(store, []), { channel: hex16(label) })
  await world.create('alice', { name: `acme/support/${label}` })
  return world
}

/** Counts how often channels are locked: with each thing that is missing, all of them are read and decided again. */
function count(t: TestContext): { locks: number; headers: number } {
  const counted = { locks: 0, headers: 0 }
  const rows = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', async function (this: Session, ...asked: Parameters<Session['rows']>) {
    const found = await rows.apply(this, asked)
    if (asked[0].text.startsWith('SELECT c.number, c.version')) counted.locks += 1
    if (asked[0].text.includes('octet_length(body)::bigint')) counted.headers += found.length
    return found
  })
  return counted
}

async function countOf(scratch: Scratch, table: string): Promise<unknown> {
  return (await scratch.query(`select count(*)::int from static_relay.${table}`))[0]?.[0]
}

test('commits and Welcomes of many channels expire together', async (t) => {
  const { scratch, store } = await open(t)
  let now = 0
  for (let at = 0; at < 20; at++) {
    const world = await channelAt(store, `c${at}`)
    for (const name of ['bob', 'carol']) {
      accepted(await world.commit('alice', { adds: [name], welcomes: [welcomeFor(name)], groupInfo: text(name) }))
    }
    now = world.now + RETENTION.entryMs
  }
  const counted = count(t)
  await store.run('sweep', { now })
  for (const table of ['slots', 'turns', 'entries', 'welcomes', 'group_infos']) {
    assert.equal(await countOf(scratch, table), 0, table)
  }
  assert.ok(counted.locks <= 8, `${counted.locks} times`)
})

test('many commits of one channel expire together', async (t) => {
  const { scratch, store } = await open(t)
  const world = await channelAt(store, 'busy')
  for (let at = 0; at < 70; at++) accepted(await world.commit('alice', {}))
  const counted = count(t)
  await store.run('sweep', { now: world.now + RETENTION.entryMs })
  assert.equal(await countOf(scratch, 'slots'), 0)
  assert.ok(counted.locks <= 10, `${counted.locks} times`)
})

test('a sweep reads no more of a log than it deletes', async (t) => {
  const { store } = await open(t)
  const world = await channelAt(store, 'long')
  accepted(await world.commit('alice', { adds: ['bob'] }))
  await world.chatter('alice', 200)
  await world.ack('alice', 200)
  await world.ack('bob', 3)
  const counted = count(t)
  assert.deepEqual(await store.run('sweep', { now: world.now }), { removed: 3 })
  assert.ok(counted.headers <= 70, `${counted.headers} headers`)
})

test('a damaged channel does not keep the sweep from the others', async (t) => {
  const { scratch, store } = await open(t)
  const worlds = await Promise.all(['row', 'log', 'whole'].map((label) => channelAt(store, label)))
  for (const world of worlds) {
    accepted(await world.say('alice'))
    accepted(await world.say('alice'))
  }
  await store.run('useNonce', { nonce: id16('nonce'), until: 0 })
  await scratch.query(`update static_relay.channels set bytes = bytes + 1 where name = 'acme/support/row';
    delete from static_relay.entries where index = 1 and channel =
      (select number from static_relay.channels where name = 'acme/support/log')`)
  const now = (worlds[0]?.now ?? 0) + RETENTION.entryMs
  // Each damage stops the sweep that finds it, and the one before if that could not tell where it is.
  for (let tries = 0; tries < 5; tries++) await store.run('sweep', { now }).catch(() => {})
  assert.deepEqual((await worlds[2]?.read('alice', 0))?.gap?.position.index, 2)
  assert.equal(await countOf(scratch, 'nonces'), 0)
})
