/** The copy of a database file into PostgreSQL: everything is kept, it goes on after a kill, and what is in use is refused. */
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, after, test } from 'node:test'
import { parsePostgresUrl } from '@static/node/postgres-address'
import type { Store, StoreRequest } from '../../src/ports.ts'
import { type RelayCopy, type RelayCopyOptions, copyToPostgres } from '../../src/store/copy/copy.ts'
import { CopySource } from '../../src/store/copy/source.ts'
import { CopyTarget } from '../../src/store/copy/target.ts'
import { openPostgresStore } from '../../src/store/postgres/store.ts'
import { toJson } from '../../src/store/records/json.ts'
import { openSqliteStore } from '../../src/store/sqlite/store.ts'
import { type Scratch, makeScratch } from '../support/postgres.ts'
import {
  ChannelFixture,
  HOUR,
  RETENTION,
  accepted,
  account,
  assertChain,
  crashed,
  hex16,
  id16,
  member,
  publicKey,
  reopened,
  temporaryFile,
  text,
  welcomeFor,
} from './channel-fixture.ts'

const TABLES =
  `accounts channels foundings senders entries members slots turns welcomes group_infos invites files file_rooms joins
  nonces ids dropped deployment`.split(/\s+/)
const MANY = 2100

async function scratchFor(t: TestContext): Promise<Scratch> {
  const scratch = await makeScratch()
  t.after(() => scratch.remove())
  return scratch
}

const copyTo = (
  path: string,
  { url, keyFile }: Scratch,
  onProgress?: RelayCopyOptions['onProgress'],
): Promise<RelayCopy> => copyToPostgres({ path, url, keyFile, onProgress })

/** All rows of a copy. `deployment` has a fingerprint of the copy's own key. */
async function dump(scratch: Scratch): Promise<Map<string, unknown[][]>> {
  const tables = new Map<string, unknown[][]>()
  for (const table of TABLES) {
    const columns = table === 'deployment' ? 'relay_id, version' : '*'
    tables.set(table, await scratch.query(`select ${columns} from static_relay.${table} order by 1, 2`))
  }
  return tables
}

const registered = (world: ChannelFixture, label: string): Promise<unknown> =>
  world.run('registerInvite', {
    actor: member('alice'),
    invite: {
      id: hex16(label),
      channel: world.channel,
      admissionKey: publicKey(label),
      expiresAt: world.now + HOUR,
      maxUses: 3,
      members: true,
      boxKey: publicKey('box'),
    },
    maxInvites: 10,
    now: world.now,
  })

const fileOf = ({ channel, now }: ChannelFixture): StoreRequest<'fileStatus'> => ({
  channel,
  file: hex16('file'),
  actor: member('bob'),
  now,
})

/** A channel with a long log that one member has not read, a Welcome that waits, an invite, and a deleted channel. */
async function lived(store: Store): Promise<ChannelFixture> {
  const world = new ChannelFixture(store, [])
  await world.found('alice', 'bob', 'carol')
  await world.create('alice', { channel: hex16('gone'), name: 'acme/support/gone' })
  await world.run('delete', { account: account('alice'), channel: hex16('gone'), name: undefined })
  await world.chatter('bob', MANY)
  await world.ack('bob', MANY + 2)
  await world.ack('alice', MANY + 1)
  const groupInfo = text('the GroupInfo')
  accepted(await world.commit('alice', { adds: ['dave'], welcomes: [welcomeFor('dave')], groupInfo }))
  await registered(world, 'an invite')
  const limits = { accountBytes: 2 ** 30, perChannel: 10, open: 8, unsentMs: HOUR }
  await world.run('beginFile', { ...fileOf(world), size: 1_310_720, limits })
  await world.run('recordPart', { ...fileOf(world), part: 1, checksum: 2 ** 32 - 1 })
  await world.run('useNonce', { nonce: id16('nonce'), until: world.now + HOUR })
  return world
}

/** A file as a killed relay leaves it: rows are behind the log, which is partly in the write-ahead log. */
const directory = mkdtempSync(join(tmpdir(), 'static-copy-'))
const path = join(directory, 'relay.sqlite')
const store = await openSqliteStore({ path, retention: RETENTION }, () => {})
const lively = await lived(store)
await lively.run('sweep', { now: lively.now })
await lively.chatter('alice', 3)
const killed = await crashed(store, path, 'killed')
after(async () => {
  await store.close()
  rmSync(directory, { recursive: true })
})

function killedFile(t: TestContext): string {
  const copy = temporaryFile(t)
  for (const suffix of ['', '-wal']) cpSync(`${killed}${suffix}`, `${copy}${suffix}`)
  return copy
}

/** Without the difference between views of bytes. */
const plain = (value: object): unknown => JSON.parse(toJson(value))

test('agents find everything in the copy where they left it, and go on', async (t) => {
  const path = temporaryFile(t)
  const source = await openSqliteStore({ path, retention: RETENTION }, () => {})
  t.after(() => source.close())
  const world = await lived(source)
  const repeated = world.message('bob', { counter: MANY + 1, messageId: id16('repeated') })
  const index = accepted(await world.run('append', repeated))
  const names = ['alice', 'bob', 'carol', 'dave']
  const before = await Promise.all(names.map((name) => world.standing(name)))
  const waiting = await world.waiting('dave')
  const logs = await Promise.all(names.map((name) => world.read(name, 0)))
  const file = await world.run('fileStatus', fileOf(world))
  const { relayId } = source.deployment
  await source.close()
  const bytes = readFileSync(path)

  const scratch = await scratchFor(t)
  const copied = await copyTo(path, scratch)
  assert.deepEqual(copied.relayId, relayId)
  assert.deepEqual(readFileSync(path), bytes, 'the file is unchanged')
  const target = await openPostgresStore({ ...scratch, retention: RETENTION }, () => {})
  t.after(() => target.close())
  assert.deepEqual(target.deployment.relayId, relayId)
  const moved = new ChannelFixture(target, [])
  moved.head = world.head
  assert.deepEqual(await Promise.all(names.map((name) => moved.standing(name))), before)
  assert.deepEqual(plain(await moved.run('fileStatus', fileOf(moved))), plain(file))
  assert.equal(waiting.length, 1)
  assert.deepEqual(plain(await moved.waiting('dave')), plain(waiting))
  const read = await Promise.all(names.map((name) => moved.read(name, 0)))
  assert.deepEqual(plain(read), plain(logs))
  // A repeat gets the first answer, and what follows continues the chain.
  assert.equal(accepted(await moved.run('append', repeated)), index)
  assert.equal(accepted(await moved.run('append', moved.message('bob', { counter: MANY + 2 }))), index + 1)
  assert.equal('refused' in (await moved.create('alice', { channel: hex16('new') })), true, 'the name is taken')
  await moved.create('alice', { channel: hex16('new'), name: 'acme/support/new' })
  const [[number = 0] = []] = await scratch.query('select max(number) from static_relay.channels')
  assert.ok(Number(number) > 2, 'the number of the deleted channel is not used again')
  const { entries } = await moved.read('alice', 0)
  assertChain(moved.channel, entries)
  assert.equal((await moved.run('useNonce', { nonce: id16('nonce'), until: 1 })).fresh, false)
  assert.equal((await moved.run('invite', { id: hex16('an invite') })).invite?.maxUses, 3)
  await moved.run('sweep', { now: moved.now })
})

test('a copy that is killed after any batch continues and ends like one in a single run', async (t) => {
  const path = killedFile(t)
  const [whole, halved] = [await scratchFor(t), await scratchFor(t)]
  const first = await copyTo(path, whole)
  assert.deepEqual([first.progress?.channels, first.progress?.entries], [1, MANY + 4])

  let runs = 0
  let last: RelayCopy | undefined
  while (!last && runs < 20) {
    runs += 1
    let stored = 0
    // A node that starts meanwhile is refused.
    const killed = copyTo(path, halved, () => {
      if (++stored === 1) throw new Error('killed')
    })
    last = await killed.catch((error: Error) => {
      assert.match(error.message, /The copy stopped \(killed\)\. Run the command again/)
      return undefined
    })
    if (last) break
    const node = openPostgresStore({ ...halved, retention: RETENTION }, () => {})
    await assert.rejects(node, { code: 'invalid_request', message: /The copy into this database is not complete/ })
  }
  assert.ok(runs > 3, `${runs} runs`)
  assert.deepEqual(await dump(halved), await dump(whole))
  assert.deepEqual([last?.progress?.channels, last?.progress?.entries], [1, MANY + 4])

  // The rows that the killed relay left behind its log are those that it would have written itself.
  reopened(path)
  const rows = await scratchRows(whole)
  const db = new DatabaseSync(path, { readOnly: true })
  t.after(() => db.close())
  const stored = db.prepare('select last_index, bytes, oldest_at from channels').get()
  assert.deepEqual(rows, Object.values(stored ?? {}).map(String))
})

async function scratchRows(scratch: Scratch): Promise<string[]> {
  const [row = []] = await scratch.query('select last_index, bytes, oldest_at from static_relay.channels')
  return row.map(String)
}

test('a second run of a complete copy does nothing; other targets and sources are refused', async (t) => {
  const path = killedFile(t)
  const scratch = await scratchFor(t)
  await copyTo(path, scratch)
  const before = await dump(scratch)
  const again = await copyTo(path, scratch)
  assert.equal(again.progress, undefined)
  assert.deepEqual(await dump(scratch), before)

  const missing = `${path}.missing`
  await assert.rejects(copyTo(missing, scratch), { code: 'not_found', message: /does not exist/ })
  assert.equal(existsSync(missing), false)
  const running = await openSqliteStore({ path, retention: RETENTION }, () => {})
  await assert.rejects(copyTo(path, scratch), { code: 'store_locked', message: /is locked by another process/ })
  const world = new ChannelFixture(running, [])
  await world.ack('carol', 2)
  await running.close()
  // The relay has run since: the copy is not of what the file holds now.
  await assert.rejects(copyTo(path, scratch), { code: 'invalid_request', message: /before it was changed/ })

  const other = await scratchFor(t)
  const node = await openPostgresStore({ ...other, retention: RETENTION }, () => {})
  await assert.rejects(copyTo(path, other), { code: 'invalid_request', message: /already belongs to a relay/ })
  await node.close()
  await assert.rejects(copyTo(path, other), { code: 'invalid_request', message: /already belongs to a relay/ })
})

test('of two copies at once, the one that is behind stops', async (t) => {
  const path = killedFile(t)
  const scratch = await scratchFor(t)
  const source = await CopySource.open(path)
  t.after(() => source.close())
  const address = parsePostgresUrl(scratch.url)
  const [one, other] = [
    await CopyTarget.open(address, scratch.keyFile, source),
    await CopyTarget.open(address, scratch.keyFile, source),
  ]
  t.after(() => Promise.all([one.close(), other.close()]))
  const pieces = [...source.read(one.progress.mark)].slice(0, 10)
  await one.store(pieces.slice(0, 5))
  // Not the same rows: nothing but the progress says that the other has moved on.
  await assert.rejects(other.store(pieces.slice(5)), { code: 'store_locked', message: /Another copy/ })
  await one.store(pieces.slice(5))
})

test('a damaged row stops the copy with one sentence', async (t) => {
  const path = killedFile(t)
  const run = (sql: string): void => {
    const db = new DatabaseSync(path)
    db.exec(sql)
    db.close()
  }
  const scratch = await scratchFor(t)
  const stops = async (damage: string, message: RegExp, repair: string): Promise<void> => {
    run(damage)
    await assert.rejects(copyTo(path, scratch), { code: 'store_corrupt', message })
    run(repair)
    await scratch.query('drop schema static_relay cascade')
  }
  const entry = 'where key & 0xfffffffff = 7'
  await stops(
    `update entries set body = cast(x'00' || substr(body, 2) as blob) ${entry}`,
    /The store is damaged \(entry 7\)/,
    `update entries set body = cast('f' || substr(body, 2) as blob) ${entry}`,
  )
  await stops(
    'update members set cursor_index = cursor_index + 1',
    /a row of members/,
    'update members set cursor_index = cursor_index - 1',
  )
  await stops('update ids set head = head + 1', /a row of ids/, 'update ids set head = head - 1')
  await copyTo(path, scratch)
  await scratch.query('drop schema static_relay cascade')
  run('delete from channels')
  await assert.rejects(copyTo(path, scratch), { code: 'store_corrupt', message: /the list of channels/ })
})
