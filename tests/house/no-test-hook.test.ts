/** What is preloaded into the processes of test files. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { test } from 'node:test'

const HOOK = resolve(import.meta.dirname, '../../scripts/no-test-hook.mjs')

test('a test process ends when its output is no longer read', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'static-hook-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'lines.test.mjs')
  writeFileSync(file, "import { test } from 'node:test'\nfor (let n = 0; n < 20; n++) test(`${n}`, () => {})\n")
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const child = spawn(process.execPath, ['--import', HOOK, '--test-reporter=spec', file], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  })
  // As when `npm test` is killed.
  child.stdout.destroy()
  child.stderr.destroy()
  const [, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
  assert.equal(signal, null)
})
