/** The bytes of files that have ended, and of none: deleted by the thread of the port, whatever was interrupted. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { certificates } from '@static/testkit/certificates'
import { openMemoryStore } from '@static/testkit/store/relay-memory'
import { FilesPort } from '../../src/files/port.ts'
import { FileSweeper, type SweptParts } from '../../src/files/sweeper.ts'
import type { PartGate } from '../../src/ports.ts'
import { ChannelFixture, DAY, hex16, member, RETENTION } from '../store/channel-fixture.ts'

const CLOSED: PartGate = {
  ask: () => Promise.resolve({ type: 'refused', refusal: { refused: 'unavailable' } }),
  store: () => Promise.resolve({ type: 'refused', refusal: { refused: 'unavailable' } }),
  over: () => {},
}

function temporary(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'static-sweep-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

async function openPort(t: TestContext, store: string): Promise<FilesPort> {
  const { named } = await certificates()
  const failures: string[] = []
  const port = await FilesPort.open({
    store,
    host: 'localhost',
    port: 0,
    certificate: named,
    namedCertificate: named,
    proxyProtocolFrom: [],
    proxyCa: undefined,
    bytesPerSecond: 1_000_000,
    gate: CLOSED,
    failed: (message) => failures.push(message),
  })
  t.after(async () => {
    await port.close()
    assert.deepEqual(failures, [])
  })
  return port
}

/** Bytes of a file, as if they had come a day ago. */
function plant(root: string, key: string, ageMs = DAY): string {
  const directory = join(root, key.slice(0, 2), key)
  mkdirSync(directory, { recursive: true })
  writeFileSync(join(directory, '0'), 'part')
  const at = (Date.now() - ageMs) / 1000
  utimesSync(directory, at, at)
  return directory
}

/** A store with a channel, and a sweeper that a test runs. */
async function openWorld(t: TestContext, parts: SweptParts): Promise<{ world: ChannelFixture; sweeper: FileSweeper }> {
  const world = new ChannelFixture(await openMemoryStore({ retention: RETENTION }, () => {}), [])
  await world.found('alice', 'bob')
  world.now = Date.now()
  const failed = (error: unknown): void => assert.fail(String(error))
  const sweeper = new FileSweeper({ store: world.store, parts, now: () => world.now, failed })
  t.after(() => sweeper.stop())
  return { world, sweeper }
}

/** Begins a file of Alice's; gives the key of its bytes. */
async function begin(world: ChannelFixture, label: string): Promise<string> {
  const name = { channel: world.channel, file: hex16(label), actor: member('alice'), now: world.now }
  const limits = { accountBytes: 2 ** 30, perChannel: 10, open: 8, unsentMs: DAY }
  await world.run('beginFile', { ...name, size: 65_536, limits })
  const admitted = await world.run('admitPart', { ...name, part: 0 })
  assert.ok('key' in admitted)
  return admitted.key
}

test('the bytes of files that have ended are deleted, then their records; the others stay', async (t) => {
  const root = temporary(t)
  const port = await openPort(t, root)
  const { world, sweeper } = await openWorld(t, port)
  const [dropped, kept] = [await begin(world, 'dropped'), await begin(world, 'kept')]
  const paths = [plant(root, dropped), plant(root, kept)]
  const name = { channel: world.channel, file: hex16('dropped'), actor: member('alice') }
  await world.run('dropFile', { ...name, everyone: true, now: world.now })
  await sweeper.sweep()
  assert.deepEqual(paths.map(existsSync), [true, true])
  world.now += 10_000
  await sweeper.sweep()
  assert.deepEqual(paths.map(existsSync), [false, true])
  assert.deepEqual(await world.run('knownFiles', { keys: [dropped, kept] }), { keys: [kept] })
  world.now += DAY
  await sweeper.sweep()
  assert.deepEqual(paths.map(existsSync), [false, false])
})

test('a crash between the bytes and the record repeats the deletion, and none leaves a record without end', async (t) => {
  const root = temporary(t)
  const port = await openPort(t, root)
  let isBroken = true
  const deleted: string[] = []
  const parts: SweptParts = {
    list: (after, before) => port.list(after, before),
    async delete(files) {
      await port.delete(files)
      deleted.push(...files.map(({ key }) => key))
      if (isBroken) throw new Error('killed')
    },
  }
  const { world, sweeper } = await openWorld(t, parts)
  const key = await begin(world, 'file')
  const path = plant(root, key)
  world.now += DAY + 10_000
  await assert.rejects(sweeper.sweep(), /killed/)
  assert.deepEqual([existsSync(path), await world.run('knownFiles', { keys: [key] })], [false, { keys: [key] }])
  isBroken = false
  await sweeper.sweep()
  assert.deepEqual([deleted, await world.run('knownFiles', { keys: [key] })], [[key, key], { keys: [] }])
})

test('bytes that no record knows are deleted, but not those that came lately', async (t) => {
  const root = temporary(t)
  const port = await openPort(t, root)
  const { world, sweeper } = await openWorld(t, port)
  const known = plant(root, await begin(world, 'file'))
  const lost = Array.from({ length: 1001 }, (_, at) => plant(root, at.toString(16).padStart(32, '0')))
  const young = plant(root, 'f'.repeat(32), 60_000)
  await sweeper.search()
  assert.deepEqual(lost.filter(existsSync), [])
  assert.deepEqual([existsSync(known), existsSync(young)], [true, true])
})

test('a directory that cannot be used keeps the port closed, with a reason', async (t) => {
  const root = temporary(t)
  writeFileSync(join(root, 'file'), '')
  await assert.rejects(openPort(t, join(root, 'file', 'files')), { code: 'unavailable' })
})
