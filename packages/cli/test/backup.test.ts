/** Backups that are incomplete or damaged, and directories that are in use: refused, with nothing changed. */
import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { once } from 'node:events'
import { test, type TestContext } from 'node:test'
import { Worker } from 'node:worker_threads'
import { copyDatabase, openStore } from '@static/api'
import { type AccountRoom, copyDatabase as copyStoppedRelay } from '@static/relay'
import { copyFile } from '../src/backup/copy-file.ts'
import { type BackupOptions, makeBackup } from '../src/backup/make.ts'
import type { Manifest } from '../src/backup/manifest.ts'
import { restoreBackup } from '../src/backup/restore.ts'
import { ensurePrivateDirectory } from '../src/server/data-dir.ts'
import { roomsOf, serveRelayControl } from '../src/server/relay-control.ts'

function backUp(
  options: Pick<BackupOptions, 'dataDir' | 'target' | 'parts'> & { database?: string },
): Promise<Manifest> {
  return makeBackup({ database: undefined, copyApi: copyDatabase, copyStoppedRelay, ...options })
}

interface Scene {
  readonly home: string
  /** The data directory of a stopped API. */
  readonly data: string
  /** A backup of it. */
  readonly backup: string
  readonly target: string
}

async function scene(t: TestContext): Promise<Scene> {
  const home = mkdtempSync(join(tmpdir(), 'static-backup-'))
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const data = join(home, 'data')
  mkdirSync(data, { mode: 0o700 })
  await (await openStore(join(data, 'api.sqlite'))).close()
  writeFileSync(join(data, 'master.key'), 'secret', { mode: 0o600 })
  writeFileSync(join(data, 'ca.pem'), 'public', { mode: 0o644 })
  const backup = join(home, 'backup')
  await backUp({ dataDir: data, target: backup })
  return { home, data, backup, target: join(home, 'restored') }
}

const roomOf = (account: string): Promise<AccountRoom> => Promise.resolve({ channels: account.length, bytes: 0 })

test('a backup has every file with its mode, and overwrites nothing', async (t) => {
  const { home, data, backup, target } = await scene(t)
  assert.deepEqual(readdirSync(backup).sort(), ['api.sqlite', 'ca.pem', 'manifest.json', 'master.key'])
  await assert.rejects(backUp({ dataDir: data, target: backup }), {
    code: 'invalid_request',
    message: /backup is not an empty directory\. A backup never overwrites files/,
  })
  await restoreBackup(backup, target)
  assert.deepEqual(readdirSync(target).sort(), ['api.sqlite', 'ca.pem', 'master.key'])
  assert.equal(readFileSync(join(target, 'master.key'), 'utf8'), 'secret')
  assert.deepEqual(
    ['api.sqlite', 'ca.pem', 'master.key'].map((name) => statSync(join(target, name)).mode & 0o777),
    [0o600, 0o644, 0o600],
  )
  await assert.rejects(restoreBackup(backup, target), { code: 'invalid_request', message: /restored is not empty/ })
  const empty = join(home, 'empty')
  await assert.rejects(backUp({ dataDir: empty, target: join(home, 'none') }), {
    code: 'not_found',
    message: /empty has no database/,
  })
  const manifest = await backUp({ dataDir: data, database: 'postgres://db/static', target: join(home, 'rest') })
  assert.deepEqual(
    [manifest.api_database, manifest.files.map(({ name }) => name).sort()],
    ['postgres', ['ca.pem', 'master.key']],
  )
})

test('a directory that cannot be made is named, without a word of bugs', async (t) => {
  const { data } = await scene(t)
  const target = join(data, 'master.key/backup')
  const message = `Cannot create the directory ${target}. Choose one that this user can create.`
  await assert.rejects(backUp({ dataDir: data, target }), { code: 'invalid_request', message })
})

test('an interrupted or damaged backup is refused before anything is restored', async (t) => {
  const { backup, target } = await scene(t)
  const manifest = join(backup, 'manifest.json')
  const refused = async (code: string, message: RegExp): Promise<void> => {
    await assert.rejects(restoreBackup(backup, target), { code, message })
    assert.ok(!existsSync(target))
  }
  // A crash at any step leaves no manifest, because that is written last.
  renameSync(manifest, `${manifest}.aside`)
  await refused('not_found', /is not a complete backup: it has no manifest\.json/)
  renameSync(`${manifest}.aside`, manifest)

  const database = join(backup, 'api.sqlite')
  const bytes = readFileSync(database)
  writeFileSync(database, bytes.with(5000, (bytes[5000] ?? 0) ^ 1))
  await refused('store_corrupt', /api\.sqlite does not match the manifest/)
  rmSync(database)
  await refused('store_corrupt', /api\.sqlite is missing/)
  writeFileSync(database, bytes)

  const text = readFileSync(manifest, 'utf8')
  for (const [from, to] of [
    ['"api.sqlite"', '"../api.sqlite"'],
    ['"api.sqlite"', '"master.key"'],
    ['"mode": "600"', '"mode": "4755"'],
    ['"files": [', '"files": [null, '],
  ] as const) {
    writeFileSync(manifest, text.replace(from, to))
    await refused('store_corrupt', /manifest\.json is not a manifest/)
  }
  writeFileSync(manifest, text.slice(1))
  await refused('store_corrupt', /manifest\.json is not JSON/)
  writeFileSync(manifest, text.replace('"format": 1', '"format": 2'))
  await refused('invalid_request', /A newer version of Static made/)
  writeFileSync(manifest, text)
  await restoreBackup(backup, target)
})

test('a backup is restored into the home directory of the service, where the command keeps its code cache', async (t) => {
  const { backup, target } = await scene(t)
  mkdirSync(join(target, '.cache'), { recursive: true, mode: 0o700 })
  await restoreBackup(backup, target)
  await assert.rejects(restoreBackup(backup, target), { code: 'invalid_request', message: /is not empty/ })
})

test('no server starts in a directory whose restore was interrupted', async (t) => {
  const { backup, target } = await scene(t)
  mkdirSync(target, { mode: 0o700 })
  // A crash at any step leaves the marker, which is removed last.
  writeFileSync(join(target, 'restore.incomplete'), '')
  assert.throws(() => ensurePrivateDirectory(target), { code: 'invalid_request', message: /was interrupted\. Delete/ })
  await assert.rejects(restoreBackup(backup, target), { code: 'invalid_request', message: /is not empty/ })
})

test('a copy that the relay cannot make fails the backup; one that nobody takes is removed', async (t) => {
  const { home, data } = await scene(t)
  writeFileSync(join(data, 'relay.sqlite'), 'held by the relay', { mode: 0o600 })
  writeFileSync(join(data, '.relay.sqlite.0123456789abcdef.tmp'), 'left by a killed relay')
  let fails = true
  const control = await serveRelayControl(data, {
    roomOf,
    backup: (path) => {
      writeFileSync(path, 'the copy')
      return fails ? Promise.reject(new Error('the disk is full')) : Promise.resolve()
    },
  })
  t.after(() => control.close())
  const temporary = (): string[] => readdirSync(data).filter((name) => name.startsWith('.'))
  assert.deepEqual(temporary(), [])
  assert.equal(statSync(join(data, 'relay.sock')).mode & 0o777, 0o600)
  const target = join(home, 'second')
  await assert.rejects(backUp({ dataDir: data, target }), { code: 'internal_error' })
  assert.ok(!existsSync(join(target, 'manifest.json')))
  // Half a copy would keep the disk full until the relay is restarted.
  assert.deepEqual(temporary(), [])
  fails = false
  const again = join(home, 'third')
  await backUp({ dataDir: data, target: again })
  assert.equal(readFileSync(join(again, 'relay.sqlite'), 'utf8'), 'the copy')
  assert.deepEqual(temporary(), [])
})

test('a running relay says what accounts keep in it; a stopped one, nothing', async (t) => {
  const { data } = await scene(t)
  assert.equal(await roomsOf(data, ['a']), undefined)
  const control = await serveRelayControl(data, { backup: () => Promise.resolve(), roomOf })
  assert.deepEqual(await roomsOf(data, ['a', 'bcd']), [
    { channels: 1, bytes: 0 },
    { channels: 3, bytes: 0 },
  ])
  await control.close()
  const roomOfNone = (): Promise<AccountRoom> => Promise.reject(new Error('the disk is gone'))
  const again = await serveRelayControl(data, { backup: () => Promise.resolve(), roomOf: roomOfNone })
  t.after(() => again.close())
  await assert.rejects(roomsOf(data, ['a']), { code: 'internal_error' })
})

test('a relay runs without its socket where none can be made', async (t) => {
  const { data } = await scene(t)
  mkdirSync(join(data, 'relay.sock'))
  const written = t.mock.method(process.stderr, 'write', () => true)
  const control = await serveRelayControl(data, { backup: () => Promise.resolve(), roomOf })
  assert.match(
    String(written.mock.calls[0]?.arguments[0]),
    /relay\.sock .*: stop the server before `static admin backup`/,
  )
  await control.close()
})

test('nobody else can read a restored secret while it is copied, whatever the mode of the backup', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'static-backup-'))
  t.after(() => rmSync(home, { recursive: true, force: true }))
  const [from, to] = [join(home, 'from'), join(home, 'to')]
  writeFileSync(from, Buffer.alloc(32 * 1024 * 1024, 7), { mode: 0o644 })
  const watcher = new Worker(
    `const { statSync } = require('node:fs')
    const { parentPort, workerData } = require('node:worker_threads')
    parentPort.postMessage('watching')
    let found
    for (const until = Date.now() + 20_000; !found && Date.now() < until; )
      found = statSync(workerData, { throwIfNoEntry: false })
    parentPort.postMessage(found?.mode)`,
    { eval: true, workerData: to },
  )
  await once(watcher, 'message')
  const seen = once(watcher, 'message')
  copyFile(from, to, 0o600)
  const [mode] = (await seen) as [number]
  assert.equal(mode & 0o777, 0o600)
  assert.deepEqual(readFileSync(to), readFileSync(from))
  assert.throws(() => copyFile(from, to, 0o600), { code: 'EEXIST' })
})

test('a backup with files has every part, and nothing else of their directory', async (t) => {
  const { home, data, backup, target } = await scene(t)
  const parts = join(data, 'files')
  const key = `ab${'01'.repeat(15)}`
  const write = (name: string, text: string): void => {
    mkdirSync(join(parts, name, '..'), { recursive: true })
    writeFileSync(join(parts, name), text)
  }
  write(`ab/${key}/0`, 'first')
  write(`ab/${key}/1023`, 'last')
  for (const name of [`ab/${key}/.7.0123456789abcdef.tmp`, 'ab/notes', 'README']) write(name, 'of the operator')
  writeFileSync(join(data, 'files.sha256'), 'of another restore')
  const full = join(home, 'full')
  const { files } = await backUp({ dataDir: data, target: full, parts })
  assert.deepEqual(files.map(({ name }) => name).sort(), ['api.sqlite', 'ca.pem', 'files.sha256', 'master.key'])
  assert.deepEqual(readdirSync(join(full, 'files/ab', key)), ['0', '1023'])

  await restoreBackup(full, target)
  assert.deepEqual(readdirSync(target).sort(), ['api.sqlite', 'ca.pem', 'files', 'master.key'])
  assert.deepEqual(readdirSync(join(target, 'files/ab')), [key])
  assert.equal(readFileSync(join(target, 'files/ab', key, '1023'), 'utf8'), 'last')
  assert.equal(statSync(join(target, 'files/ab', key, '0')).mode & 0o777, 0o600)
  // A directory that the nodes share, which is in use.
  await assert.rejects(restoreBackup(full, join(home, 'other'), parts), {
    code: 'invalid_request',
    message: /--file-store/,
  })
  await restoreBackup(full, join(home, 'other'), join(home, 'shared'))
  assert.equal(readFileSync(join(home, 'shared/ab', key, '0'), 'utf8'), 'first')

  await restoreBackup(backup, join(home, 'without'))
  assert.ok(!existsSync(join(home, 'without/files')))
})

test('a backup with a damaged or missing part is refused before anything is restored', async (t) => {
  const { home, data, target } = await scene(t)
  const part = `files/ab/ab${'01'.repeat(15)}/0`
  mkdirSync(join(data, part, '..'), { recursive: true })
  writeFileSync(join(data, part), 'part')
  const full = join(home, 'full')
  await backUp({ dataDir: data, target: full, parts: join(data, 'files') })
  const refused = async (message: RegExp): Promise<void> => {
    await assert.rejects(restoreBackup(full, target), { code: 'store_corrupt', message })
    assert.ok(!existsSync(target))
  }
  writeFileSync(join(full, part), 'tarp')
  await refused(/0 does not match files\.sha256/)
  rmSync(join(full, part))
  await refused(/0 is missing/)
  writeFileSync(join(full, part), 'part')
  const list = readFileSync(join(full, 'files.sha256'), 'utf8')
  writeFileSync(join(full, 'files.sha256'), list.replace('files/ab', 'files/..'))
  await refused(/files\.sha256 does not match the manifest/)
})
