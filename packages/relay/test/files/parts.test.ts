import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { DirectoryParts } from '../../src/files/directory.ts'
import { chunks, KEY, keys, suite } from './parts-suite.ts'

function temporary(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'static-parts-'))
  t.after(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

suite('directory', async (t) => new DirectoryParts(temporary(t)))

test('parts in a directory are for the relay alone, at the path that operators know', async (t) => {
  const root = temporary(t)
  const parts = new DirectoryParts(root)
  await parts.put(KEY, 12, chunks(Buffer.from('x')), 1)
  const path = join(root, 'ab', KEY, '12')
  assert.equal(statSync(path).mode & 0o777, 0o600)
  assert.equal(statSync(join(root, 'ab', KEY)).mode & 0o777, 0o700)
  assert.deepEqual(readdirSync(join(root, 'ab', KEY)), ['12'])
  assert.equal(await parts.isNearlyFull(), false)
})

test('what is not a file’s in the directory is left alone, and no key leads out of it', async (t) => {
  const root = temporary(t)
  const parts = new DirectoryParts(root)
  writeFileSync(join(root, 'ab'), 'not a directory')
  writeFileSync(join(root, 'README'), 'an operator’s note')
  assert.deepEqual(await keys(parts), [])
  for (const key of ['..', `../${'a'.repeat(29)}`, 'A'.repeat(32), '']) {
    await assert.rejects(parts.put(key, 0, chunks(Buffer.from('x')), 1), { code: 'internal_error' })
  }
})
