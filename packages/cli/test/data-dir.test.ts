import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmod, chown, mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { createFile } from '@static/node/files'
import { defaultDataDirectory, ensurePrivateDirectory, ensureSecretFile } from '../src/server/data-dir.ts'
import { staticError, temporaryDirectory } from './support.ts'

const asRoot = process.geteuid?.() === 0

async function modeOf(path: string): Promise<number> {
  return (await stat(path)).mode & 0o777
}

void test('the default data directory follows XDG', () => {
  assert.equal(defaultDataDirectory({ XDG_DATA_HOME: '/data' }, '/home/ada'), '/data/static/server')
  for (const unset of [{}, { XDG_DATA_HOME: '' }, { XDG_DATA_HOME: 'relative' }]) {
    assert.equal(defaultDataDirectory(unset, '/home/ada'), '/home/ada/.local/share/static/server')
  }
})

void test('a missing data directory is created with mode 0700, whatever the umask', async (t) => {
  const path = join(await temporaryDirectory(t), 'deep', 'er')
  const before = process.umask(0)
  try {
    ensurePrivateDirectory(path)
  } finally {
    process.umask(before)
  }
  assert.equal(await modeOf(path), 0o700)
  assert.equal(await modeOf(dirname(path)), 0o700)
})

void test('an existing directory may be readable by others, but not writable', async (t) => {
  const path = await temporaryDirectory(t)
  await mkdir(path)
  await chmod(path, 0o755)
  ensurePrivateDirectory(path)
  assert.equal(await modeOf(path), 0o755)
  for (const mode of [0o770, 0o777, 0o702]) {
    await chmod(path, mode)
    const refusal = staticError('store_permissions', /writable by other users: run `chmod 700 .*server`\.$/)
    assert.throws(() => ensurePrivateDirectory(path), refusal)
  }
})

void test('a directory and a file of another user are refused', { skip: !asRoot && 'needs root' }, async (t) => {
  const path = await temporaryDirectory(t)
  ensurePrivateDirectory(path)
  const file = join(path, 'secret')
  createFile(file, 'x', 0o600)
  await chown(file, 12_345, 12_345)
  await assert.rejects(
    ensureSecretFile(file, () => randomBytes(1)),
    staticError('store_permissions', /another user \(id 12345\)/),
  )
  await chown(path, 12_345, 12_345)
  assert.throws(() => ensurePrivateDirectory(path), staticError('store_permissions', /another user \(id 12345\)/))
})

void test('a file in place of the directory is refused', async (t) => {
  const path = await temporaryDirectory(t)
  await writeFile(path, '')
  assert.throws(() => ensurePrivateDirectory(path), staticError('invalid_request', /is a file/))
  assert.throws(() => ensurePrivateDirectory(join(path, 'below')), staticError('invalid_request', /is a file/))
})

void test('a secret file is created once with mode 0600, and read afterwards', async (t) => {
  const path = await temporaryDirectory(t)
  ensurePrivateDirectory(path)
  const file = join(path, 'secret')
  const before = process.umask(0o777)
  let made: Buffer
  try {
    made = await ensureSecretFile(file, () => randomBytes(32))
  } finally {
    process.umask(before)
  }
  assert.equal(await modeOf(file), 0o600)
  assert.deepEqual(await readFile(file), made)
  assert.deepEqual(await ensureSecretFile(file, () => assert.fail('made twice')), made)
  assert.deepEqual(await readdir(path), ['secret'])
})

void test('a secret file that others can access is refused, with the command that fixes it', async (t) => {
  const path = join(await temporaryDirectory(t), "it's here")
  ensurePrivateDirectory(path)
  const file = join(path, 'secret')
  createFile(file, 'x', 0o600)
  for (const mode of [0o640, 0o604, 0o620, 0o601]) {
    await chmod(file, mode)
    const refusal = staticError(
      'store_permissions',
      /accessible by other users: run `chmod 600 '.*it'\\''s here\/secret'`/,
    )
    await assert.rejects(
      ensureSecretFile(file, () => randomBytes(1)),
      refusal,
    )
  }
  await chmod(file, 0o400)
  assert.equal(String(await ensureSecretFile(file, () => randomBytes(1))), 'x')
})

void test('anything but a regular file is refused without hanging', { timeout: 120_000 }, async (t) => {
  const path = await temporaryDirectory(t)
  await mkdir(join(path, 'folder'), { recursive: true, mode: 0o700 })
  await promisify(execFile)('mkfifo', ['-m', '600', join(path, 'fifo')])
  for (const name of ['folder', 'fifo']) {
    await assert.rejects(
      ensureSecretFile(join(path, name), () => randomBytes(1)),
      staticError('invalid_request', /not a regular file/),
    )
  }
})

void test('racing promises get the same content', async (t) => {
  const path = await temporaryDirectory(t)
  ensurePrivateDirectory(path)
  const file = join(path, 'secret')
  const all = await Promise.all(Array.from({ length: 50 }, () => ensureSecretFile(file, () => randomBytes(32))))
  assert.equal(new Set(all.map((content) => content.toString('hex'))).size, 1)
  assert.deepEqual(await readdir(path), ['secret'])
})

void test('racing processes get the same content', async (t) => {
  const path = await temporaryDirectory(t)
  ensurePrivateDirectory(path)
  const module = JSON.stringify(new URL('../src/server/data-dir.ts', import.meta.url).href)
  // All processes report that they are ready before any of them may start.
  const code = `
    import { randomBytes } from 'node:crypto'
    import { once } from 'node:events'
    import { ensureSecretFile } from ${module}
    process.send('ready')
    await once(process, 'message')
    const contents = []
    for (let i = 0; i < 40; i++) {
      contents.push((await ensureSecretFile(${JSON.stringify(path)} + '/' + i, () => randomBytes(32))).toString('hex'))
    }
    process.send(contents)
    process.disconnect()`
  const words = ['--input-type=module', '-e', code]
  const racers = Array.from({ length: 4 }, () => spawn(process.execPath, words, { stdio: ['ignore', 2, 2, 'ipc'] }))
  const heard = (): Promise<unknown[]> => Promise.all(racers.map(async (racer) => (await once(racer, 'message'))[0]))
  await heard()
  const contents = heard()
  for (const racer of racers) racer.send('go')
  const [first, ...others] = (await contents) as string[][]
  assert.equal(first?.length, 40)
  for (const other of others) assert.deepEqual(other, first)
})

void test('temporary files of a killed writer are removed, those of an active writer are not', async (t) => {
  const path = await temporaryDirectory(t)
  ensurePrivateDirectory(path)
  const [dead, alive, other] = ['.ca.key.0123456789abcdef.tmp', '.ca.key.fedcba9876543210.tmp', '.mine.tmp']
  for (const name of [dead, alive, other]) await writeFile(join(path, name), 'secret')
  const old = new Date(Date.now() - 120_000)
  for (const name of [dead, other]) await utimes(join(path, name), old, old)
  ensurePrivateDirectory(path)
  assert.deepEqual((await readdir(path)).sort(), [alive, other])
})
