import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { mountSmallDisk, noSmallDisk } from '@static/testkit/full-disk'
import {
  createFile,
  makeDirectories,
  readPrivateFile,
  readPublicFile,
  replaceFile,
  sweepDirectory,
  sweepLeftovers,
} from '../src/files.ts'

function temporaryDirectory(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'static-files-'))
  t.after(() => rmSync(path, { recursive: true, force: true }))
  return path
}

const modeOf = (path: string): number => statSync(path).mode & 0o777

void test('replacing a file replaces all of it, and creating a file never replaces one', (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'server.pem')
  assert.equal(createFile(file, 'one', 0o644), true)
  assert.equal(createFile(file, 'two', 0o644), false)
  assert.equal(readFileSync(file, 'utf8'), 'one')
  replaceFile(file, 'three', 0o600)
  assert.equal(readFileSync(file, 'utf8'), 'three')
  assert.equal(modeOf(file), 0o600)
  assert.deepEqual(readdirSync(directory), ['server.pem'])
})

void test('the mode of a file does not depend on the umask', (t) => {
  const directory = temporaryDirectory(t)
  for (const umask of [0, 0o777]) {
    const before = process.umask(umask)
    try {
      createFile(join(directory, `file-${umask}`), 'x', 0o644)
    } finally {
      process.umask(before)
    }
    assert.equal(modeOf(join(directory, `file-${umask}`)), 0o644)
  }
})

void test('a private file can be read only by its owner, a public one written only by its owner', (t) => {
  const file = join(temporaryDirectory(t), 'file')
  assert.equal(readPrivateFile(file), undefined)
  assert.equal(readPublicFile(file), undefined)
  createFile(file, 'x', 0o600)
  assert.equal(String(readPrivateFile(file)), 'x')
  chmodSync(file, 0o644)
  assert.throws(() => readPrivateFile(file), { code: 'store_permissions', message: /accessible .* `chmod 600 / })
  assert.equal(String(readPublicFile(file)), 'x')
  chmodSync(file, 0o664)
  assert.throws(() => readPublicFile(file), { code: 'store_permissions', message: /writable .* `chmod 644 / })
})

void test('anything but a regular file is refused without hanging', { timeout: 120_000 }, async (t) => {
  const directory = temporaryDirectory(t)
  mkdirSync(join(directory, 'folder'), { mode: 0o700 })
  await promisify(execFile)('mkfifo', ['-m', '600', join(directory, 'fifo')])
  for (const name of ['folder', 'fifo']) {
    assert.throws(() => readPrivateFile(join(directory, name)), {
      code: 'invalid_request',
      message: /not a regular file/,
    })
  }
})

void test('directories are created with mode 0700, and creation does not loop where none can be', (t) => {
  const path = join(temporaryDirectory(t), 'deep', 'er')
  makeDirectories(path)
  makeDirectories(path)
  assert.deepEqual([modeOf(path), modeOf(dirname(path))], [0o700, 0o700])
  assert.throws(() => makeDirectories('/proc/static/none'), { code: 'ENOENT' })
})

void test('files left by a killed writer are removed: those of one file, or all in a directory', (t) => {
  const directory = temporaryDirectory(t)
  const [dead, alive, other] = ['.ca.key.0123456789abcdef.tmp', '.ca.key.fedcba9876543210.tmp', '.mine.tmp']
  const second = '.master.key.0123456789abcdef.tmp'
  for (const name of [dead, alive, other, second]) writeFileSync(join(directory, name), 'secret')
  const old = new Date(Date.now() - 120_000)
  for (const name of [dead, other, second]) utimesSync(join(directory, name), old, old)
  sweepLeftovers(join(directory, 'ca.key'))
  assert.deepEqual(readdirSync(directory).sort(), [alive, second, other].sort())
  sweepDirectory(directory)
  assert.deepEqual(readdirSync(directory).sort(), [alive, other].sort())
})

test('a file that does not fit on its disk is not written, and the disk is named', { skip: noSmallDisk() }, () => {
  using disk = mountSmallDisk()
  disk.fill()
  const path = join(disk.path, 'key')
  const message = `The disk with ${path} is full (0 bytes free). Free some space, then try again.`
  assert.throws(() => replaceFile(path, 'secret', 0o600), { code: 'store_failed', message })
  assert.deepEqual(readdirSync(disk.path), ['filler'])
})
