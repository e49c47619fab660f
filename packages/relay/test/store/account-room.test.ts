/** What all channels of an account hold together, what its plan allows, and what the default holds for a day. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryStore } from '@static/testkit/store/relay-memory'
import { DEFAULT_SETTINGS } from '../../src/settings.ts'
import { ENTRY_OVERHEAD } from '../../src/store/ledger/rows/log.ts'
import { SLOT_BYTES, TURN_BYTES } from '../../src/store/ledger/rows/slots.ts'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import {
  RETENTION,
  ChannelFixture,
  DAY,
  START,
  accepted,
  account,
  agentId,
  forLedger,
  guest,
  hex16,
  id16,
  member,
  refused,
  temporaryFile,
} from './channel-fixture.ts'

const MIB = 1024 * 1024
/** The smallest size that messages of the SDK come in, and what it counts for. */
const SMALL = 1914
const KILOBYTE = { ciphertext: new Uint8Array(1000 - ENTRY_OVERHEAD) }

/** Another channel of alice's account, in which she talks to herself. */
async function another(
  world: ChannelFixture,
  name: string,
  owner = 'alice',
): Promise<(fields?: object) => Promise<object>> {
  const channel = hex16(name)
  assert.ok(!('refused' in (await world.create(owner, { channel, name: `acme/support/${name}` }))))
  let counter = 0
  return async (fields = {}) => {
    const request = { actor: member(owner), channel, slot: 0, counter: counter + 1, ...KILOBYTE, ...fields }
    const result = await world.run('append', world.message(owner, request))
    if ('index' in result) counter += 1
    return result
  }
}

/** Sends until there is no room. */
async function fill(send: () => Promise<object>): Promise<number> {
  for (let count = 0; count < 1000; count++) if ('refused' in (await send())) return count
  return assert.fail('it is never full')
}

forLedger((open) => {
  test('all channels of an account share its disk; none can take all of it, and other accounts are separate', async (t) => {
    const world = await open(t, { accountBytes: 40_000 })
    const [one, two, three] = [await another(world, 'one'), await another(world, 'two'), await another(world, 'three')]
    // What a channel holds counts for a third more.
    assert.equal(await fill(one), 30)
    assert.equal(await fill(two), 7)
    assert.equal(await fill(three), 2)
    const { message, lagging } = refused(await one(), 'queue_full')
    assert.match(
      message as string,
      /^The disk of the owner's account is full: .* may hold 40000 bytes, and this one holds 30000/,
    )
    assert.deepEqual(lagging, [{ agent: agentId('alice'), waiting: 30 }])
    assert.equal(await fill(await another(world, 'bobs', 'bob')), 30)

    await world.run('delete', { account: account('alice'), channel: hex16('one'), name: undefined })
    // It counts until the sweep has deleted it from the disk.
    assert.equal(await fill(three), 0)
    await world.run('sweep', { now: world.now })
    assert.equal(await fill(three), 22)
    // What is read and deleted makes room, too.
    await world.run('ack', { agent: agentId('alice'), positions: [{ channel: hex16('three'), index: 99 }] })
    await world.run('sweep', { now: world.now })
    assert.equal(await fill(two), 23)
  })

  test('the reserve for commits in a full account is an eighth of its plan', async (t) => {
    const world = await open(t, { accountBytes: 1_000_000 })
    await world.run('allot', { account: account('alice'), channelBytes: undefined, accountBytes: 40_000, at: START })
    let taken = 0
    for (let at = 0; at < 100; at++) {
      const channel = hex16(`channel ${at}`)
      await world.create('alice', { channel, name: `acme/support/number-${at}` })
      const commit = new Uint8Array(4000)
      const result = await world.run('commit', world.commitRequest('alice', { channel, slot: 0, commit }))
      if (!('index' in result)) break
      taken += commit.length
    }
    assert.ok(taken > 30_000 && taken < 45_000, `${taken}`)
  })

  test('the records of commits that can still be rejected take room until the sweep forgets them', async (t) => {
    const world = await open(t, { accountBytes: 200_000 })
    await world.found('alice')
    const names = Array.from({ length: 20 }, (_, at) => `phantom ${at}`)
    let removes: readonly string[] = []
    const churn = async (): Promise<object> => {
      const result = await world.commit('alice', { adds: names, removes, welcomes: [] })
      if (!('index' in result)) return result
      removes = names
      await world.ack('alice', result.index)
      await world.run('sweep', { now: world.now })
      return result
    }
    // The log is empty after each: its records alone fill the account, and its reserve.
    const each = SLOT_BYTES + names.length * TURN_BYTES
    assert.equal(await fill(churn), Math.floor((200_000 * 9) / 8 / each))
    world.now += 7 * DAY
    await world.run('sweep', { now: world.now })
    accepted(await churn())
  })

  test('the plan sets the room, up to the limit of the relay, and an older report is ignored', async (t) => {
    const world = await open(t, { channelBytes: 80_000, accountBytes: 80_000 })
    const send = await another(world, 'one')
    const allot = (channelBytes: number | undefined, accountBytes: number | undefined, at: number): Promise<object> =>
      world.run('allot', { account: account('alice'), channelBytes, accountBytes, at })
    await allot(8000, undefined, START)
    assert.equal(await fill(send), 6)
    await allot(16_000, undefined, START + 2)
    await allot(8000, undefined, START + 1)
    assert.equal(await fill(send), 6)
    await allot(undefined, 24_000, START + 3)
    assert.equal(await fill(send), 6)
    await allot(1_000_000, 1_000_000, START + 4)
    assert.equal(await fill(send), 42)
    // A smaller plan deletes nothing, and takes nothing more.
    await allot(8000, 8000, START + 5)
    refused(await send(), 'queue_full')
    const { entries } = await world.run('read', {
      channel: hex16('one'),
      agent: agentId('alice'),
      after: 0,
      maxBytes: MIB,
      maxEntries: 100,
    })
    assert.equal(entries.length, 60)
  })

  test('a full disk accepts the owner’s commits from a limited reserve', async (t) => {
    const world = await open(t, { accountBytes: 16_000 })
    await world.found('alice', 'bob')
    await fill(() => world.say('bob', KILOBYTE))
    refused(await world.commit('bob', { commit: new Uint8Array(4000) }), 'queue_full')
    const large = { commit: new Uint8Array(1500) }
    const count = await fill(() => world.commit('alice', large))
    assert.ok(count >= 1 && count <= 4, `${count}`)
    const { message } = refused(await world.commit('alice', large), 'queue_full')
    assert.match(message as string, /^The disk of the owner's account is full/)
    // Leaving and reading are always possible.
    accepted(await world.leave('bob'))
    await world.ack('alice', 99)
    await world.run('sweep', { now: world.now })
    accepted(await world.commit('alice', large))
  })

  test('a guest can fill neither the disk of the account nor the room of others', async (t) => {
    const world = await open(t, { channelBytes: MIB, accountBytes: 4 * MIB })
    assert.ok(!('refused' in (await world.create('alice', { guestLimit: 1_000_000 }))))
    accepted(await world.commit('alice', { adds: ['bob', 'mallory'] }))
    const flood = { actor: guest('mallory'), ciphertext: new Uint8Array(270_000) }
    const count = await fill(() => world.say('mallory', flood))
    assert.equal(count, 2)
    // Smaller ones fill the rest of its share.
    await fill(() => world.say('mallory', { actor: guest('mallory'), ciphertext: new Uint8Array(20_000) }))
    for (const name of ['alice', 'bob']) assert.ok((await fill(() => world.say(name, KILOBYTE))) >= 40, name)
    const other = await another(world, 'other')
    assert.ok((await fill(other)) >= 780)
  })
})

test('the size and the limits of an account survive a restart', async (t) => {
  const path = temporaryFile(t)
  const start = async (): Promise<ChannelFixture> =>
    new ChannelFixture(await openSqliteStore({ path, retention: RETENTION }, () => undefined), [])
  const before = await start()
  await before.run('allot', { account: account('alice'), channelBytes: undefined, accountBytes: 40_000, at: START })
  const send = await another(before, 'one')
  for (let at = 0; at < 20; at++) accepted(await send())
  await before.store.close()

  const after = await start()
  t.after(() => after.store.close())
  after.recount('alice', 20)
  let sent = 0
  const more = (): Promise<object> =>
    after.say('alice', { channel: hex16('one'), slot: 0, messageId: id16(`more ${sent++}`), ...KILOBYTE })
  assert.equal(await fill(more), 10)
})

test('with the limits of the free plan a channel holds a day of one small message a second for an offline member', async () => {
  // By a hundredth: what is held follows from sizes alone.
  const [scale, channelBytes, seconds] = [100, 256 * MIB, 86_400]
  const store = await openMemoryStore({ retention: DEFAULT_SETTINGS.retention }, () => undefined)
  const world = new ChannelFixture(store, [])
  const allotment = { channelBytes: channelBytes / scale, accountBytes: (4 * channelBytes) / scale, at: START }
  await world.run('allot', { account: account('alice'), ...allotment })
  await world.found('alice', 'bob', 'carol')
  let slowest = 0
  const send = async (): Promise<void> => {
    const result = await world.say('bob', { ciphertext: new Uint8Array(SMALL) })
    const index = accepted(result)
    if ('pressure' in result) slowest = Math.max(slowest, result.pressure?.waitMs ?? 0)
    for (const name of ['alice', 'bob']) await world.ack(name, index)
  }
  for (let at = 0; at < seconds / scale; at++) await send()
  const { gap, last } = await world.read('carol', 1)
  assert.deepEqual([gap, last], [undefined, 1 + seconds / scale])
  assert.ok(slowest < 1000, `one message a second is slowed to one in ${slowest} ms`)
  // Whole: three quarters of the room are one sender's.
  assert.ok(seconds * (SMALL + ENTRY_OVERHEAD) < (3 / 4) * channelBytes)
  // Another eighth, and the one that is away loses the oldest.
  for (let at = 0; at < seconds / scale / 8; at++) await send()
  assert.ok((await world.read('carol', 1)).gap)
})
