import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { StaticError } from '@static/protocol'
import { mountSmallDisk, noSmallDisk } from '@static/testkit/full-disk'
import type { StoreRequest, StoreResult, Retention, StoreEvent, StoreOperation } from '../../src/ports.ts'
import { Ledger } from '../../src/store/ledger/ledger.ts'
import { Census } from '../../src/store/sqlite/census.ts'
import { SqliteRows } from '../../src/store/sqlite/rows.ts'
import { openDatabase } from '../../src/store/sqlite/schema.ts'
import { type SqliteStore, openSqliteStore } from '../../src/store/sqlite/store.ts'
import {
  DAY,
  RETENTION,
  ChannelFixture,
  accepted,
  account,
  agentId,
  assertChain,
  guest,
  hex16,
  member,
  notice,
  refused,
  sha256,
  temporaryFile,
  text,
  welcomeFor,
} from './channel-fixture.ts'

/** Sets how large a process may make its files: a disk that is full for it alone. */
const PRLIMIT = '/usr/bin/prlimit'

interface File {
  readonly path: string
  readonly open: () => Promise<ChannelFixture & { readonly store: SqliteStore }>
}

function file(t: TestContext, retention: Partial<Retention> = {}): File {
  const path = temporaryFile(t)
  const open = async (): Promise<ChannelFixture & { readonly store: SqliteStore }> => {
    const events: StoreEvent[] = []
    const options = { path, retention: { ...RETENTION, ...retention } }
    const store = await openSqliteStore(options, (event) => events.push(event))
    t.after(() => store.close())
    return new ChannelFixture(store, events) as ChannelFixture & { readonly store: SqliteStore }
  }
  return { path, open }
}

/** What a table holds, after the store was closed. */
function count(path: string, table: string): unknown {
  const db = new DatabaseSync(path)
  try {
    return db.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.['rows']
  } finally {
    db.close()
  }
}

const rejectedWith =
  (code: string, cause?: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof StaticError)
    assert.equal(error.code, code)
    if (cause) assert.match((error.cause as Error).message, cause)
    return true
  }

test('a file from before an index was added gets it when it is opened', async (t) => {
  const { path, open } = file(t)
  await (await open()).store.close()
  const db = new DatabaseSync(path)
  const indexes = ['used_up_invites', 'joins_in', 'joins_by', 'joins_weight']
  for (const index of indexes) db.exec(`DROP INDEX ${index}`)
  db.close()
  const world = await open()
  await world.found('alice', 'bob')
  accepted(await world.say('bob'))
})

test('more calls in one tick than a function takes arguments are all answered', { timeout: 120_000 }, async (t) => {
  const { store } = await file(t).open()
  const calls = Array.from({ length: 130_000 }, () => store.run('heads', { channels: [] }))
  assert.equal((await Promise.all(calls)).length, calls.length)
})

test('everything is restored when the file is opened again', async (t) => {
  const { open } = file(t)
  const before = await open()
  await before.found('alice', 'bob', 'carol', 'dave', 'erin')
  const sent = before.message('bob')
  accepted(await before.run('append', sent))
  before.recount('bob', 1)
  accepted(await before.say('carol', { actor: guest('carol'), control: true }))
  const commit = before.commitRequest('erin', {
    adds: ['frank'],
    welcomes: [welcomeFor('frank', { inviteId: text('invite') })],
  })
  accepted(await before.run('commit', commit))
  before.head = 2
  accepted(await before.leave('dave'))
  assert.ok('rejected' in (await before.reject(member('bob'), 1)))
  const invite = {
    id: hex16('invite'),
    channel: before.channel,
    admissionKey: text('k'),
    expiresAt: before.now + DAY,
    maxUses: 3,
    members: false,
  }
  await before.run('registerInvite', { actor: member('alice'), invite, maxInvites: 5, now: before.now })
  await before.ack('alice', 5)
  await before.ack('bob', 3)
  const everything = async (world: ChannelFixture): Promise<unknown> => {
    const names = ['alice', 'bob', 'carol', 'dave', 'erin', 'frank']
    const standings = await Promise.all(names.map((name) => world.resume(name, [world.channel])))
    const welcomes = await Promise.all(names.map((name) => world.waiting(name)))
    const reads = await Promise.all(names.map((name) => world.read(name, 0)))
    return [standings, welcomes, reads, await world.run('invite', { id: invite.id })]
  }
  const { deployment } = before.store
  const was = await everything(before)
  await before.store.close()

  const world = await open()
  assert.deepEqual(world.store.deployment, deployment)
  assert.equal(deployment.relayId.length, 32)
  assert.equal(deployment.tokenKey.length, 32)
  assert.notDeepEqual(deployment.relayId, deployment.tokenKey)
  assert.deepEqual(await everything(world), was)
  world.head = 2
  // What is decided now rests on what was decided then.
  assert.deepEqual(await world.run('append', sent), { index: 2, charged: false })
  assert.deepEqual(await world.run('commit', commit), { index: 4, head: 2, units: 0 })
  assert.deepEqual(await world.create('alice', { welcome: text('other') }), {
    welcome: text('founding'),
    guestLimit: 1000,
  })
  refused(await world.say('bob', { actor: guest('bob') }), 'api_key_required')
  assert.deepEqual(await world.reject(guest('carol'), 1), { rejected: false, votes: 2, needed: 3 })
  assert.deepEqual(await world.reject(member('alice'), 1), { rejected: true, votes: 3, needed: 3 })
  refused(await world.commit('erin', { adds: ['gina'] }), 'not_allowed')
  accepted(await world.commit('bob', { removes: ['dave'], notices: [notice('dave', 2)] }))
  world.recount('bob', 1)
  accepted(await world.say('bob'))
  assertChain(world.channel, (await world.read('alice', 0)).entries)
})

test('a backup has everything from before it, is a database of its own, and holds up no one', async (t) => {
  const { path, open } = file(t)
  const world = await open()
  await world.found('alice', 'bob')
  const ciphertext = Buffer.alloc(200_000, 'x')
  // More than the backup copies at a time.
  for (let sent = 0; sent < 40; sent++) accepted(await world.say('bob', { ciphertext }))
  const copy = `${path}.copy`
  let done = false
  const copied = world.store.backup(copy).then(() => (done = true))
  let meanwhile = 0
  // Small ones: the channel must not fill up, however long the backup takes.
  for (; !done; meanwhile++) accepted(await world.say('bob'))
  await copied
  assert.ok(meanwhile > 1, 'messages were accepted during the backup')
  await assert.rejects(world.store.backup(copy), rejectedWith('unavailable'))
  assert.equal(statSync(copy).mode & 0o777, 0o600)
  const { lastIndex } = (await world.resume('alice', [world.channel])).standings[0] as { lastIndex: number }
  await world.store.close()

  const db = new DatabaseSync(copy)
  assert.deepEqual({ ...db.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' })
  db.close()
  const store = await openSqliteStore({ path: copy, retention: RETENTION }, () => undefined)
  t.after(() => store.close())
  const again = new ChannelFixture(store, [])
  assert.deepEqual(store.deployment, world.store.deployment)
  const [standing] = (await again.resume('alice', [world.channel])).standings
  const restored = (standing as { lastIndex: number }).lastIndex
  assert.ok(restored >= 41 && restored <= lastIndex, `${restored} of ${lastIndex} entries`)
  assertChain(world.channel, (await again.read('alice', 0)).entries)
})

test('the census counts all channels, a few at a time', async (t) => {
  const { path, open } = file(t)
  const world = await open()
  const channels = Array.from({ length: 501 }, (_, at) => `channel ${at}`)
  await world.found('alice', 'bob')
  accepted(await world.say('bob'))
  await Promise.all(
    channels.map((name) =>
      world.create('alice', { channel: hex16(name), name: `acme/many/${name}`, maxChannels: 999 }),
    ),
  )
  await world.store.close()
  const db = openDatabase(path)
  t.after(() => db.close())
  const census = new Census(db)
  for (let pass = 0; pass < 2; pass++) {
    assert.equal(census.step(), undefined)
    const { channels: counted, logBytes, oldestAt, fileBytes } = census.step() ?? assert.fail('not done')
    assert.deepEqual([counted, oldestAt, fileBytes], [502, world.now, statSync(path).size])
    assert.ok(logBytes > 0)
  }
})

test('a second process gets an error that the file is in use', async (t) => {
  const { path, open } = file(t)
  const world = await open()
  await assert.rejects(
    openSqliteStore({ path, retention: RETENTION }, () => undefined),
    rejectedWith('store_locked'),
  )
  const module = JSON.stringify(join(import.meta.dirname, '../../src/store/sqlite/store.ts'))
  const source = `import(${module})
    .then(({ openSqliteStore }) => openSqliteStore(${JSON.stringify({ path, retention: RETENTION })}, () => undefined))
    .catch(({ code }) => console.log(code))`
  const { stdout } = spawnSync(process.execPath, ['-e', source], { encoding: 'utf8', timeout: 120_000 })
  assert.equal(stdout.trim(), 'store_locked')
  await world.found('alice')
  await world.store.close()
  assert.equal((await (await open()).stand('alice')).lastIndex, 0)
})

test('only the owner of the file can read it, including its write-ahead log', async (t) => {
  const { path, open } = file(t)
  writeFileSync(path, '', { mode: 0o644 })
  const world = await open()
  await world.found('alice')
  const names = readdirSync(dirname(path))
  assert.deepEqual(names, ['relay.sqlite', 'relay.sqlite-wal'])
  for (const name of names) assert.equal(statSync(join(dirname(path), name)).mode & 0o777, 0o600, name)
})

test('a file of a newer version, one that is not a database, and one that cannot be created are refused', async (t) => {
  const { path, open } = file(t)
  await (await open()).store.close()
  const db = new DatabaseSync(path)
  db.exec('PRAGMA user_version=99')
  db.close()
  await assert.rejects(
    open(),
    (error: StaticError) => error.code === 'store_corrupt' && /newer version/.test(error.message),
  )
  writeFileSync(path, 'no database at all, but long enough to be looked at'.repeat(100))
  await assert.rejects(open(), rejectedWith('store_corrupt'))
  const nowhere = { path: join(path, 'nowhere'), retention: RETENTION }
  await assert.rejects(
    openSqliteStore(nowhere, () => undefined),
    rejectedWith('unavailable'),
  )
})

test('calls in one tick share one transaction', async (t) => {
  const { open } = file(t)
  const world = await open()
  await world.found('alice', 'bob')
  const before = world.store.transactions
  const results = await world.chatter('bob', 200)
  assert.deepEqual(
    results.map(accepted),
    Array.from({ length: 200 }, (_, at) => 2 + at),
  )
  assert.equal(world.store.transactions - before, 1)
  await world.chatter('bob', 600)
  assert.ok(world.store.transactions - before <= 4)
})

test('an operation sees the changes of earlier ones in the same transaction', async (t) => {
  const { open } = file(t)
  const world = await open()
  await world.found('alice')
  const [, resumed, , swept] = await Promise.all([
    world.run('commit', world.commitRequest('alice', { adds: ['bob'] })),
    world.resume('bob'),
    world.ack('alice', 1),
    world.run('sweep', { now: world.now }),
  ])
  assert.deepEqual([resumed.standings.length, resumed.member, swept.removed], [1, true, 1])
})

test('the caller keeps its buffers, even if what it passes is a view of a larger one', async (t) => {
  const { open } = file(t)
  const world = await open()
  await world.found('alice')
  const large = new Uint8Array(1 << 20).fill(7)
  accepted(await world.say('alice', { ciphertext: large.subarray(1000, 1300), messageId: large.subarray(0, 16) }))
  accepted(await world.commit('alice', { commit: large.subarray(2000, 2100) }))
  assert.equal(large.length, 1 << 20)
  const { entries } = await world.read('alice', 0)
  assertChain(world.channel, entries)
  assert.deepEqual(
    entries.map((entry) => (entry.kind === 'message' ? entry.ciphertext.length : 0)),
    [300, 0],
  )
})

test('a failing statement fails its own operation and no other', async (t) => {
  const { path, open } = file(t)
  const first = await open()
  await first.found('alice', 'bob')
  await first.store.close()
  const db = new DatabaseSync(path)
  db.exec(
    `CREATE TRIGGER planted BEFORE INSERT ON entries WHEN NEW.body = x'bad0' BEGIN SELECT RAISE(ABORT, 'planted'); END`,
  )
  db.close()

  const world = await open()
  world.head = 1
  const bad = world.message('bob', { ciphertext: Uint8Array.of(0xba, 0xd0) })
  const results = await Promise.allSettled([
    world.say('alice'),
    world.run('append', bad),
    world.run('append', { ...bad, ciphertext: text('good') }),
    world.run('nonsense' as never, {} as never),
    world.run('append', world.message('bob', { counter: 2 })),
  ])
  assert.deepEqual(
    results.map((result) =>
      result.status === 'fulfilled' ? accepted(result.value) : (result.reason as StaticError).code,
    ),
    [2, 'unavailable', 3, 'unavailable', 4],
  )
  await assert.rejects(
    world.run('append', { ...bad, counter: 3, messageId: text('another id of 16') }),
    rejectedWith('unavailable', /planted/),
  )
  assert.equal(world.store.healthy(), true)
  const { entries } = await world.read('alice', 1)
  assertChain(world.channel, entries, (await world.stand('bob')).cursor)
  assert.deepEqual(
    world.told().map((event) => event.type === 'appended' && event.entry.index),
    [2, 3, 4],
  )
})

test('when the thread dies, pending and later calls are rejected, and the process is notified once', async (t) => {
  const deaths: unknown[] = []
  const options = { path: temporaryFile(t), retention: RETENTION, onDeath: (error: StaticError) => deaths.push(error) }
  const world = new ChannelFixture(await openSqliteStore(options, () => undefined), [])
  await world.found('alice')
  const doomed = [world.run('read', undefined as never), world.say('alice')]
  for (const promise of doomed) await assert.rejects(promise, rejectedWith('unavailable', /undefined/))
  assert.equal(world.store.healthy(), false)
  await assert.rejects(world.say('alice'), rejectedWith('unavailable'))
  await world.store.close()
  assert.equal(deaths.length, 1)
  rejectedWith('unavailable', /undefined/)(deaths[0])

  // An end that was asked for is no death.
  const another = await openSqliteStore(options, () => undefined)
  await another.close()
  assert.equal(deaths.length, 1)
})

test('closing finishes pending calls and refuses later ones', async (t) => {
  const { open } = file(t)
  const world = await open()
  await world.found('alice')
  const last = world.chatter('alice', 50)
  const closed = world.store.close()
  await assert.rejects(world.say('alice'), rejectedWith('closed'))
  assert.deepEqual(
    (await last).map(accepted),
    Array.from({ length: 50 }, (_, at) => 1 + at),
  )
  await closed
  await world.store.close()
  assert.equal((await (await open()).stand('alice')).lastIndex, 50)
})

test('the file shrinks again after a full channel was acknowledged', async (t) => {
  const { path, open } = file(t)
  const world = await open()
  await world.found('alice', 'bob')
  const size = (): number =>
    readdirSync(dirname(path)).reduce((sum, name) => sum + statSync(join(dirname(path), name)).size, 0)
  for (let times = 0; times < 8; times++) await world.chatter('bob', 32, { ciphertext: new Uint8Array(60_000) })
  assert.ok(size() > 14_000_000, String(size()))
  await world.ack('alice', 257)
  await world.ack('bob', 257)
  for (let times = 0; times < 4; times++) await world.run('sweep', { now: (world.now += 10_000) })
  // Compaction follows the answer of its sweep: the next answer comes after it.
  await world.run('check', { actor: member('bob'), channel: world.channel })
  assert.ok(size() < 3_000_000, String(size()))
})

test('the next sweeps delete the entries of a deleted channel, and expired ids', async (t) => {
  const { path, open } = file(t)
  const world = await open()
  await world.found('alice')
  for (let times = 0; times < 5; times++) await world.chatter('alice', 1000)
  await world.run('delete', { account: account('alice'), channel: world.channel, name: undefined })
  await world.create('alice')
  world.recount('alice')
  await world.chatter('alice', 3, { slot: 0 })
  for (let times = 0; times < 6; times++) await world.run('sweep', { now: world.now })
  await world.store.close()
  assert.deepEqual(
    ['entries', 'ids', 'dropped'].map((table) => count(path, table)),
    [3, 5003, 0],
  )

  const later = await open()
  for (let times = 0; times < 4; times++) await later.run('sweep', { now: later.now + 8 * DAY })
  await later.store.close()
  assert.deepEqual(
    ['entries', 'ids'].map((table) => count(path, table)),
    [0, 0],
  )
})

test('the channel cache is limited by size, but always keeps the last channel', async (t) => {
  const db = openDatabase(temporaryFile(t))
  t.after(() => db.close())
  const rows = new SqliteRows(db, sha256, RETENTION.entryMs, { cachedBytes: 200_000 })
  const ledger = new Ledger(rows, sha256, RETENTION)
  const store = {
    deployment: { relayId: new Uint8Array(), tokenKey: new Uint8Array() },
    run: async <Name extends StoreOperation>(name: Name, request: StoreRequest<Name>): Promise<StoreResult<Name>> => {
      const { result } = ledger.run(name, request)
      rows.flush()
      rows.settle()
      return result
    },
    healthy: () => true,
    durability: () => 'memory' as const,
    close: () => Promise.resolve(),
  }
  const world = new ChannelFixture(store, [])
  const adds = Array.from({ length: 100 }, (_, at) => `member ${at}`)
  const channels = Array.from({ length: 6 }, (_, at) => hex16(`heavy ${at}`))
  for (const [at, channel] of channels.entries()) {
    await world.create('alice', { channel, name: `a/b/c${at}` })
    accepted(await world.run('commit', world.commitRequest('alice', { channel, slot: 0, adds })))
    assert.ok(rows.channels.cached.bytes <= 200_000, JSON.stringify(rows.channels.cached))
  }
  assert.equal(rows.channels.cached.channels, 2)
  // Where an agent stands is told without loading any of them, and one operation on all of them keeps none too many.
  const { standings } = await world.resume('member 7')
  assert.deepEqual([standings.length, rows.channels.cached.channels], [6, 2])
  await world.run('ack', { agent: agentId('member 7'), positions: channels.map((channel) => ({ channel, index: 1 })) })
  assert.ok(rows.channels.cached.bytes <= 200_000, JSON.stringify(rows.channels.cached))
  for (const channel of channels) {
    accepted(await world.run('append', world.message('member 7', { channel, slot: 1, counter: 1 })))
  }
  for (const round of [1, 2, 3, 4]) {
    const change = {
      channel: channels[0]!,
      slot: round,
      removes: adds.map((name) => `${name}${'+'.repeat(round - 1)}`),
    }
    const next = { ...change, adds: adds.map((name) => `${name}${'+'.repeat(round)}`) }
    accepted(await world.run('commit', world.commitRequest('alice', next)))
  }
  assert.ok(rows.channels.cached.bytes > 200_000)
  assert.equal(rows.channels.cached.channels, 1)
})

test('a full disk refuses writes and loses nothing, and the store recovers when there is room', async (t) => {
  if (!existsSync(PRLIMIT)) return t.skip(`needs ${PRLIMIT}`)
  const { path, open } = file(t)
  const child = fileURLToPath(new URL('./storage-full-child.ts', import.meta.url))
  const limited = ['--fsize=3000000:unlimited', process.execPath, child, path, PRLIMIT]
  const { stdout, stderr } = spawnSync(PRLIMIT, limited, { encoding: 'utf8', timeout: 240_000 })
  // The fixture that the child imports has a hook, so node:test adds its summary.
  const [told = ''] = stdout.split('\n')
  assert.deepEqual(told === '' ? stderr : JSON.parse(told), {
    failure: 'unavailable',
    ill: true,
    readable: true,
    stillIll: true,
    well: true,
    follows: true,
  })
  const world = await open()
  assertChain(world.channel, (await world.read('alice', 0)).entries)
})

test('a database on a full disk is not opened, and the disk is named', { skip: noSmallDisk() }, () => {
  for (const left of [0, 4096, 100_000]) {
    using disk = mountSmallDisk()
    disk.fill(left)
    const message = new RegExp(
      `^The disk with ${disk.path}/relay.sqlite is full \\(\\d+ bytes free\\)\\. Free some space`,
    )
    assert.throws(() => openDatabase(join(disk.path, 'relay.sqlite')), { code: 'unavailable', message })
  }
})
