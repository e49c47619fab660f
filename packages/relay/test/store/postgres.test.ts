/** What only the engine in PostgreSQL has: refusals at start, keys, several nodes, lost connections, damage. */
import assert from 'node:assert/strict'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { StaticError } from '@static/protocol'
import type { Store, StoreEvent, StoreListener } from '../../src/ports.ts'
import { parsePostgresUrl } from '@static/node/postgres-address'
import { listenWithoutTls, SSL_REQUEST } from '@static/testkit/postgres/plain'
import { checksum } from '../../src/store/checksum.ts'
import { connect } from '../../src/store/postgres/connector.ts'
import { Session, statement } from '../../src/store/postgres/session.ts'
import { type PostgresStore, openPostgresStore } from '../../src/store/postgres/store.ts'
import { type Scratch, ask, emptyScratch, makeScratch, openScratch } from '../support/postgres.ts'
import {
  ChannelFixture,
  DAY,
  RETENTION,
  accepted,
  agentId,
  assertChain,
  hex16,
  id16,
  member,
} from './channel-fixture.ts'

const refusal =
  (code: string, message: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof StaticError, String(error))
    assert.equal(error.code, code)
    assert.match(error.message, message)
    return true
  }

const open = async (t: TestContext, scratch: Scratch, listener: StoreListener = () => {}): Promise<PostgresStore> => {
  const store = await openScratch(scratch, RETENTION, listener, { lanes: 2 })
  t.after(() => store.close())
  return store
}

test('without sslmode the password is sent only over verified TLS', async () => {
  const scratch = await makeScratch()
  await using plain = await listenWithoutTls()
  const url = `postgres://relay:geheim@127.0.0.1:${plain.port}/relay`
  const opening = openPostgresStore({ url, keyFile: scratch.keyFile, retention: RETENTION }, () => {})
  await assert.rejects(opening, refusal('unavailable', /does not offer TLS\. .* add sslmode=disable to the URL/))
  assert.deepEqual(plain.heard(), SSL_REQUEST)
  await scratch.remove()
})

test('a node that would lose messages, or has another key, is refused', async (t) => {
  const scratch = await makeScratch()
  t.after(() => scratch.remove())
  const name = new URL(scratch.url).pathname.slice(1)
  const attempt = (url = scratch.url): Promise<PostgresStore> =>
    openPostgresStore({ url, keyFile: scratch.keyFile, retention: RETENTION }, () => {})

  await scratch.query(`alter database ${name} set synchronous_commit = off`)
  await assert.rejects(attempt(), refusal('invalid_request', /synchronous_commit=off/))
  await scratch.query(`alter database ${name} reset synchronous_commit`)
  await scratch.query('create table public.api_keys (id text)')
  await assert.rejects(attempt(), refusal('invalid_request', /can read the API's tables/))
  await scratch.query('drop table public.api_keys')

  const role = `${name}_poor`
  await scratch.query(`create role ${role} login password 'poor'`)
  t.after(() => ask(scratch.url.replace(name, 'postgres'), `drop role ${role}`))
  const poor = new URL(scratch.url)
  poor.username = role
  poor.password = 'poor'
  await assert.rejects(attempt(poor.href), refusal('invalid_request', /has not all rights/))
  await assert.rejects(attempt('postgres://a:b@127.0.0.1:1/c'), refusal('unavailable', /127.0.0.1:1 cannot be reached/))
  await assert.rejects(attempt(`${scratch.url}&sslmode=prefer`.replace('sslmode=verify-full&', '')), /sslmode=prefer/)

  const first = await attempt()
  assert.equal(first.durability(), 'fsync')
  assert.equal(statSync(scratch.keyFile).mode & 0o777, 0o600)
  await first.close()
  // The first host of the URL does not answer.
  const { host } = new URL(scratch.url)
  const second = await attempt(scratch.url.replace(host, `127.0.0.1:1,${host}`))
  assert.deepEqual(second.deployment, first.deployment)
  await second.close()

  const key = readFileSync(scratch.keyFile, 'utf8')
  writeFileSync(scratch.keyFile, `${'0'.repeat(64)}\n`)
  await assert.rejects(attempt(), refusal('invalid_request', /is the key of another deployment/))
  rmSync(scratch.keyFile)
  await assert.rejects(attempt(), refusal('invalid_request', /does not exist/))
  writeFileSync(scratch.keyFile, key)
  const [row = []] = await scratch.query('select relay_id, key_fingerprint from static_relay.deployment')
  const sum = checksum([...(row as Uint8Array[]), 2])
  await scratch.query(`update static_relay.deployment set version = 2, checksum = ${sum}`)
  await assert.rejects(attempt(), refusal('invalid_request', /newer version/))
})

/** 1,000 with `npm run proof -- cluster`. */
const SLOTS = process.env['STATIC_LONG'] === '1' ? 1000 : 8

test('a node that reaches PostgreSQL through a pooler is refused', async (t) => {
  const scratch = await emptyScratch()
  // A pooler says in place of the server which process it is.
  t.mock.getter(Session.prototype, 'serverProcess', () => 1)
  await assert.rejects(
    openScratch(scratch, RETENTION, () => {}),
    refusal('invalid_request', /^A pooler such as PgBouncer is in front of PostgreSQL/),
  )
})

test('nine committers on three nodes: each slot has one winner', async (t) => {
  const scratch = await emptyScratch()
  const events: StoreEvent[] = []
  const retention = { ...RETENTION, freeCommitBytes: 2 ** 30, freeChannelCommitBytes: 2 ** 30 }
  const nodes = await Promise.all(
    Array.from({ length: 3 }, () => openScratch(scratch, retention, (event) => events.push(event), { lanes: 2 })),
  )
  t.after(() => Promise.all(nodes.map((node) => node.close())))
  const world = new ChannelFixture(nodes[0] as Store, events)
  const names = Array.from({ length: 9 }, (_, at) => `committer ${at}`)
  await world.found('alice', ...names)
  const first = world.head
  for (let slot = first; slot < first + SLOTS; slot++) {
    const tries = names.map((name, at) => {
      const request = { ...world.commitRequest(name, { slot }), messageId: id16(`${name} ${slot}`) }
      return (nodes[at % 3] as Store).run('commit', request)
    })
    const results = await Promise.all(tries)
    const winners = results.filter((result) => 'index' in result)
    assert.equal(winners.length, 1, JSON.stringify(results))
  }
  const { entries } = await world.read('alice', 0)
  assertChain(world.channel, entries)
  assert.equal(entries.length, first + SLOTS)
  // Each node has told its own.
  const told = events.flatMap((event) => (event.type === 'appended' ? [event.entry.index] : []))
  assert.deepEqual(
    told.toSorted((one, other) => one - other),
    entries.map(({ index }) => index),
  )
  t.diagnostic(`promise T5: nine committers on three nodes: ${SLOTS} slots, one winner each`)
})

test('a node sees what another has acknowledged or stored', async (t) => {
  const scratch = await emptyScratch()
  const [one, other] = [await open(t, scratch), await open(t, scratch)]
  const world = new ChannelFixture(one, [])
  await world.found('alice', 'bob')
  await world.chatter('alice', 3)
  const twin = new ChannelFixture(other, [])
  assert.equal((await twin.stand('bob')).lastIndex, 4)
  await twin.ack('bob', 3)
  // The first node has this channel in memory, with the cursor from before.
  assert.equal((await world.stand('bob')).cursor.index, 3)
  await world.ack('bob', 2)
  assert.equal((await twin.stand('bob')).cursor.index, 3)
  const nonce = { nonce: id16('nonce'), until: world.now + 1000 }
  const uses = await Promise.all([one.run('useNonce', nonce), other.run('useNonce', nonce)])
  assert.deepEqual(uses.map(({ fresh }) => fresh).toSorted(), [false, true])
})

test('a lost connection costs at most an answer, and a repeat gets the first one', async (t) => {
  const scratch = await emptyScratch()
  const store = await open(t, scratch)
  const world = new ChannelFixture(store, [])
  await world.found('alice')
  accepted(await world.say('alice'))
  const request = world.message('alice')
  const kill = (): Promise<unknown> =>
    scratch.query(`select pg_terminate_backend(pid) from pg_stat_activity
      where application_name like 'static-relay %' and datname = current_database()`)
  await kill()
  const answer = await store.run('append', request).catch(() => store.run('append', request))
  assert.deepEqual(answer, { index: 2, charged: true })
  await kill()
  const again = await store.run('append', request).catch(() => store.run('append', request))
  assert.deepEqual(again, { index: 2, charged: false })
  const { entries } = await world.read('alice', 0)
  assertChain(world.channel, entries)
  assert.deepEqual(
    entries.map(({ index }) => index),
    [1, 2],
  )
})

test('the server ends the transaction of a node that is cut off, and no call waits long for a lock', async (t) => {
  const scratch = await emptyScratch()
  await open(t, scratch)
  const session = (await connect(parsePostgresUrl(scratch.url))).session
  t.after(() => session.end())
  const settings = [
    'idle_in_transaction_session_timeout',
    'lock_timeout',
    'statement_timeout',
    'tcp_user_timeout',
    'synchronous_commit',
  ]
  const asked = settings.map((name) => `current_setting('${name}')`).join()
  assert.deepEqual(await session.rows(statement(`SELECT ${asked}`)), [['5s', '2s', '10s', '10000', 'on']])
})

test('a node whose clock is wrong is refused, but not one that was suspended while it was answered', async (t) => {
  const scratch = await emptyScratch()
  const now = Date.now
  let ahead = 60_000
  t.mock.method(Date, 'now', () => now() + ahead)
  await assert.rejects(
    open(t, scratch),
    refusal('invalid_request', /^The clock of the database is [56]\d\.\d s behind this node's/),
  )
  ahead = 0
  const rows = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', async function (this: Session, ...words: Parameters<Session['rows']>) {
    const answer = await rows.apply(this, words)
    // Until the answer has been read.
    if (words[0].text.includes('clock_timestamp')) ahead = 5000
    setImmediate(() => (ahead = 0))
    return answer
  })
  const store = await open(t, scratch)
  assert.equal(store.healthy(), true)
})

test('a node whose clock jumps deletes and forgets nothing, and a day whose ids were dropped is created again', async (t) => {
  const scratch = await emptyScratch()
  const store = await open(t, scratch)
  const world = new ChannelFixture(store, [])
  world.now = Date.now()
  await world.found('alice')
  const request = world.message('alice')
  accepted(await world.run('append', request))
  const later = world.now + 9 * DAY
  const clock = t.mock.method(Date, 'now', () => later)
  assert.deepEqual(await store.run('sweep', { now: later }), { removed: 0 })
  assert.deepEqual(await world.run('append', { ...request, now: later }), { index: 1, charged: false })
  clock.mock.restore()
  assert.equal((await world.read('alice', 0)).entries.length, 1)
  await scratch.query(`drop table static_relay.ids_${Math.floor(world.now / DAY)}`)
  accepted(await world.say('alice', { counter: 2 }))
})

test('a count of everything that fails is not repeated at once', async (t) => {
  const scratch = await emptyScratch()
  const asked = { counts: 0, looks: 0 }
  const rows = Reflect.get(Session.prototype, 'rows')
  t.mock.method(Session.prototype, 'rows', async function (this: Session, ...words: Parameters<Session['rows']>) {
    if (words[0].text.includes('pg_is_in_recovery')) asked.looks += 1
    if (!words[0].text.includes('pg_database_size')) return rows.apply(this, words)
    asked.counts += 1
    throw Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' })
  })
  const store = await openScratch(scratch, RETENTION, () => {}, { examineMs: 50 })
  t.after(() => store.close())
  // On a busy machine, the first looks may take too long and end without a count.
  while (asked.counts === 0) await new Promise(setImmediate)
  const before = asked.looks
  while (asked.looks < before + 5) await new Promise(setImmediate)
  assert.equal(asked.counts, 1)
})

test('a database from before the later indexes gets them from whichever of its nodes starts first', async (t) => {
  const scratch = await makeScratch()
  t.after(() => scratch.remove())
  const names = ['used_up_invites', 'joins_in', 'joins_by', 'joins_weight']
  await (await openScratch(scratch, RETENTION, () => {})).close()
  await scratch.query(names.map((name) => `drop index static_relay.${name}`).join(';'))
  await Promise.all([open(t, scratch), open(t, scratch)])
  const found = await scratch.query(`select indexname from pg_indexes where schemaname = 'static_relay'`)
  const there = found.map(([name]) => name)
  assert.deepEqual(
    names.filter((name) => !there.includes(name)),
    [],
  )
})

test('a damaged row is noticed and never served, and other channels continue', async (t) => {
  const scratch = await emptyScratch()
  const store = await open(t, scratch)
  const world = new ChannelFixture(store, [])
  await world.found('alice')
  accepted(await world.say('alice'))
  const whole = { channel: hex16('whole'), name: 'acme/support/whole' }
  await world.create('alice', whole)
  const flips = [
    `update static_relay.entries set body = set_byte(body, 0, get_byte(body, 0) # 1)`,
    `update static_relay.entries set hash = set_byte(hash, 0, get_byte(hash, 0) # 1)`,
    `update static_relay.members set cursor_index = cursor_index # 1 where channel = 1`,
    `update static_relay.channels set bytes = bytes # 1 where number = 1`,
  ]
  for (const flip of flips) {
    await scratch.query(flip)
    const damage: unknown[] = []
    const options = { lanes: 2, onDamage: (error: unknown) => damage.push(error) }
    const fresh = await openScratch(scratch, RETENTION, () => {}, options)
    t.after(() => fresh.close())
    const damaged = new ChannelFixture(fresh, [])
    await assert.rejects(damaged.read('alice', 0), refusal('unavailable', /./), flip)
    assert.equal(damage.length, 1, flip)
    assert.equal(fresh.healthy(), true, 'other nodes have the same rows')
    const position = { channel: whole.channel, agent: agentId('alice'), after: 0, maxBytes: 1, maxEntries: 1 }
    assert.deepEqual((await fresh.run('read', position)).entries, [])
    assert.deepEqual(await fresh.run('check', { actor: member('alice'), channel: whole.channel }), { done: true })
    await scratch.query(flip)
  }
  assert.equal((await world.read('alice', 0)).entries.length, 1)
})

test('members of a channel that can no longer be found are not told that they are in none', async (t) => {
  const scratch = await emptyScratch()
  const before = new ChannelFixture(await open(t, scratch), [])
  await before.found('alice', 'bob')
  const id = Buffer.from(before.channel, 'hex')
  const flipped = Buffer.from(id.map((byte, at) => (at === 0 ? byte ^ 1 : byte))).toString('hex')
  const flips = [
    [
      `update static_relay.channels set id = '\\x${flipped}'`,
      `update static_relay.channels set id = '\\x${before.channel}'`,
    ],
    // As if an index did not lead to it.
    Array.from(
      { length: 2 },
      () => `update static_relay.members set channel = -channel where agent = '\\x${agentId('bob')}'`,
    ),
  ]
  for (const [flip = '', back = ''] of flips) {
    await scratch.query(flip)
    const damage: unknown[] = []
    const store = await openScratch(scratch, RETENTION, () => {}, { onDamage: (error) => damage.push(error) })
    t.after(() => store.close())
    const world = new ChannelFixture(store, [])
    await assert.rejects(world.read('bob', 0), refusal('unavailable', /./), flip)
    await assert.rejects(world.standing('bob'), refusal('unavailable', /./), flip)
    await assert.rejects(world.resume('bob'), refusal('unavailable', /./), flip)
    assert.equal(damage.length, 3)
    // Who is in no channel is told so.
    assert.deepEqual(await world.standing('mallory'), { channel: world.channel, refused: 'not_found' })
    assert.equal((await world.read('mallory', 0)).ended, true)
    assert.equal(damage.length, 3)
    await scratch.query(back)
    assert.ok('head' in (await world.standing('bob')))
  }
})
