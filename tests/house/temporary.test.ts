import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { makeTemporary } from '../../scripts/temporary.ts'

const NOBODY = 65_534
/** No process has this id. */
const GONE = 2 ** 22 + 1

test('leftovers of killed test runs are deleted, and those of other users stop no run', (t) => {
  const parent = mkdtempSync('/tmp/static-temporary-')
  t.after(() => rmSync(parent, { recursive: true }))
  chmodSync(parent, 0o1777)
  const leave = (name: string): string => {
    mkdirSync(join(parent, name, 'files'), { recursive: true })
    writeFileSync(join(parent, name, 'files/one'), '')
    return join(parent, name)
  }
  const others = leave(`static-test-${GONE}`)
  const running = leave(`static-test-${process.pid}`)
  // Root may delete what belongs to others, and an ordinary user cannot become another one.
  const isRoot = process.getuid?.() === 0
  const script = `
    const { makeTemporary } = await import(${JSON.stringify(resolve(import.meta.dirname, '../../scripts/temporary.ts'))})
    // Loaded before: another user may not read the checkout.
    if (${isRoot}) process.seteuid(${NOBODY})
    process.stdout.write(makeTemporary([${JSON.stringify(parent)}]))`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  assert.match(stdout, /\/static-test-\d+-\w+$/, stderr)
  assert.equal(existsSync(others), isRoot)
  makeTemporary([parent])
  assert.deepEqual([existsSync(others), existsSync(running)], [false, true])
})
