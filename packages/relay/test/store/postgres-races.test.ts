/** What another node changes between two statements of a transaction is no damage, and does no harm. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Session } from '../../src/store/postgres/session.ts'
import type { PostgresStore } from '../../src/store/postgres/store.ts'
import { emptyScratch, openScratch, type Scratch } from '../support/postgres.ts'
import {
  ChannelFixture,
  RETENTION,
  accepted,
  account,
  agentId,
  hex16,
  id16,
  member,
  text,
  welcomeFor,
} from './channel-fixture.ts'

const OVERVIEW = { skip: 0, maxChannels: 9, maxMembersPerChannel: 9, maxMembers: 9 }

interface Nodes {
  readonly scratch: Scratch
  readonly first: PostgresStore
  readonly second: PostgresStore
  /** What the first node took for damage. */
  readonly damage: unknown[]
}

async function openNodes(t: TestContext): Promise<Nodes> {
  const scratch = await emptyScratch()
  const damage: unknown[] = []
  const options = { lanes: 1, onDamage: (error: unknown) => damage.push(error) }
  const first = await openScratch(scratch, RETENTION, () => {}, options)
  const second = await openScratch(scratch, RETENTION, () => {}, { lanes: 1 })
  t.after(() => Promise.all([first.close(), second.close()]))
  return { scratch, first, second, damage }
}

/** Holds the next statement with this text. */
function hold(t: TestContext, text: string): { readonly reached: Promise<void>; readonly open: () => void } {
  const reached = Promise.withResolvers<void>()
  const opened = Promise.withResolvers<void>()
  const rows = Reflect.get(Session.prototype, 'rows')
  const mocked = t.mock.method(
    Session.prototype,
    'rows',
    async function (this: Session, ...asked: Parameters<Session['rows']>) {
      if (!asked[0].text.includes(text)) return rows.apply(this, asked)
      mocked.mock.restore()
      reached.resolve()
      await opened.promise
      return rows.apply(this, asked)
    },
  )
  return { reached: reached.promise, open: opened.resolve }
}

async function channelAt(store: PostgresStore, label: string): Promise<ChannelFixture> {
  const world = Object.assign(new ChannelFixture(store, []), { channel: hex16(label) })
  await world.create('alice', { name: `acme/support/${label}` })
  return world
}

test('an invite id that two nodes register at once is of one channel', async (t) => {
  const { scratch, first, second, damage } = await openNodes(t)
  const { now } = await channelAt(second, 'one')
  await channelAt(second, 'two')
  const id = hex16('invite')
  const register = (store: PostgresStore, label: string): Promise<object> => {
    const invite = {
      id,
      channel: hex16(label),
      admissionKey: text(label),
      expiresAt: now + 1000,
      maxUses: 5,
      members: false,
    }
    return store.run('registerInvite', { actor: member('alice'), invite, maxInvites: 9, now })
  }
  const held = hold(t, 'FROM invites\n  WHERE channel = $1')
  const one = register(first, 'one')
  await held.reached
  let isDone = false
  const two = register(second, 'two').finally(() => (isDone = true))
  const waiting = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  while (!isDone && (await scratch.query(waiting)).length === 0);
  held.open()
  const results = await Promise.all([one, two])
  assert.equal(results.filter((result) => 'done' in result).length, 1, JSON.stringify(results))
  for (const store of [first, second]) assert.equal((await store.run('invite', { id })).invite?.channel, hex16('one'))
  assert.deepEqual(damage, [])
})

test('a node remembers its other channels when another node is faster', async (t) => {
  const { first, second } = await openNodes(t)
  for (const label of ['one', 'two', 'three']) await channelAt(first, label)
  assert.equal(first.cached.channels, 3)
  // After it has looked for the channel.
  const held = hold(t, `pg_get_serial_sequence('channels'`)
  const late = Object.assign(new ChannelFixture(first, []), { channel: hex16('contested') })
  const lost = late.create('alice', { name: 'acme/support/contested' })
  await held.reached
  const early = Object.assign(new ChannelFixture(second, []), { channel: late.channel })
  assert.ok('welcome' in (await early.create('mallory')))
  held.open()
  assert.deepEqual(await lost, { refused: 'channel_exists' })
  // With the contested one, as it is stored.
  assert.equal(first.cached.channels, 4)
})

test('a join request that is deleted while another channel’s are taken is not damaged', async (t) => {
  const { scratch, first, second, damage } = await openNodes(t)
  const at = await channelAt(second, 'one')
  const { now, channel } = at
  const owner = agentId('alice')
  for (const name of ['bob', 'carol']) {
    await at.invite(name)
    const join = { invite: hex16(name), channel, owner, agent: agentId(name), box: text(name), until: now + 1000 }
    await second.run('requestJoin', { join, maxPerInvite: 9, maxPerOwner: 9, maxBytes: 9999, now })
  }
  const held = hold(t, 'agent, box, checksum FROM joins')
  const taken = first.run('takeJoins', {
    actor: member('alice'),
    channel,
    after: 0,
    maxRequests: 9,
    maxBytes: 9999,
    mayWait: false,
    now,
  })
  await held.reached
  await scratch.query(`delete from static_relay.joins where invite = '${hex16('bob')}'`)
  held.open()
  assert.equal((await taken).joins.length, 1)
  assert.deepEqual(damage, [])
})

test('a Welcome that is acknowledged while it is read beside a write is not damaged', async (t) => {
  const { first, second, damage } = await openNodes(t)
  const world = new ChannelFixture(second, [])
  await world.found('alice', 'bob')
  const added = { adds: ['dave'], welcomes: [welcomeFor('dave')], groupInfo: text('g') }
  const index = accepted(await world.commit('alice', added))
  const held = hold(t, 'record, welcome, checksum FROM welcomes')
  const nonce = first.run('useNonce', { nonce: id16('nonce'), until: world.now + 1000 })
  const read = first.run('welcomes', { agent: agentId('dave'), after: 0, maxBytes: 9999 })
  await held.reached
  await world.ack('dave', index)
  held.open()
  assert.deepEqual((await read).welcomes, [])
  assert.deepEqual(await nonce, { fresh: true })
  assert.deepEqual(damage, [])
})

test('nodes that store the limits of many accounts do so in one order', async (t) => {
  const { first } = await openNodes(t)
  const stored: unknown[] = []
  const rows = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', function (this: Session, ...asked: Parameters<Session['rows']>) {
    if (asked[0].text.startsWith('INSERT INTO accounts')) stored.push(asked[1]?.[0])
    return rows.apply(this, asked)
  })
  const names = ['carol', 'alice', 'bob']
  await Promise.all(
    names.map((name) => first.run('allot', { account: account(name), channelBytes: 1, accountBytes: 1, at: 1 })),
  )
  assert.deepEqual(
    stored,
    ['alice', 'bob', 'carol'].map((name) => account(name).id),
  )
})

test('take-overs and a new channel, each of which takes the name that another one leaves, share a transaction', async (t) => {
  const { first, second, damage } = await openNodes(t)
  const [one, two, three] = ['one', 'two', 'three'].map((label) =>
    Object.assign(new ChannelFixture(first, []), { channel: hex16(label) }),
  ) as [ChannelFixture, ChannelFixture, ChannelFixture]
  for (const [world, owner, standby] of [
    [one, 'alice', 'carol'],
    [two, 'bob', 'alice'],
  ] as const) {
    await world.found(owner, standby)
    accepted(await world.say(standby))
    accepted(await world.commit(owner, { owner, standby }))
  }
  const before = first.transactions
  const results = await Promise.all([
    // Alice's name is not free before Carol has her channel.
    two.say('bob'),
    one.commit('carol', { owner: 'carol', guestLimit: 7 }),
    two.commit('alice', { owner: 'alice' }),
    three.create('bob'),
  ])
  assert.deepEqual(
    results.filter((result) => 'refused' in result),
    [],
  )
  assert.equal(first.transactions - before, 1)
  const of = async (name: string): Promise<string[]> => {
    const { channels } = await second.run('owned', { account: account(name).id, ...OVERVIEW })
    return channels.map(({ id }) => id)
  }
  assert.deepEqual(await of('alice'), [hex16('two')])
  assert.deepEqual(await of('bob'), [hex16('three')])
  assert.deepEqual(await of('carol'), [hex16('one')])
  const elsewhere = Object.assign(new ChannelFixture(second, []), { channel: hex16('one') })
  assert.equal((await elsewhere.stand('alice')).guestLimit, 7)
  assert.deepEqual(damage, [])
})
