import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { test } from 'node:test'

const root = resolve(import.meta.dirname, '../..')

test('a user who is not root is told what to install, in one sentence', () => {
  const script = `
    process.getuid = () => 1000
    const { ensureDebian } = await import(${JSON.stringify(resolve(root, 'scripts/debian.ts'))})
    await ensureDebian('postgresql', '/nowhere/*/postgres', 'The test suite')`
  const done = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  const sentence =
    'The test suite needs postgresql, which is not installed. Install it (on Debian: sudo apt-get install postgresql) and try again.\n'
  assert.deepEqual([done.status, done.stdout, done.stderr], [1, '', sentence])
})

test('what a first start installs and builds goes to stderr, so that stdout has the one line of --json', (t) => {
  const checkout = mkdtempSync(join(tmpdir(), 'static-checkout-'))
  t.after(() => rmSync(checkout, { recursive: true }))
  const write = (path: string, text: string): void => {
    mkdirSync(join(checkout, dirname(path)), { recursive: true })
    writeFileSync(join(checkout, path), text)
  }
  const npm = "console.log('added 3 packages'); require('fs').mkdirSync('node_modules/.bin', { recursive: true })"
  write('npm.cjs', npm)
  write('package.json', '{"type":"module"}')
  write('package-lock.json', '{}')
  write('packages/console/index.html', '')
  write('packages/console/src/main.tsx', '')
  write('packages/console/build.ts', "console.log('vite builds')")
  write('packages/cli/src/main.ts', 'console.log(JSON.stringify({ ready: true, words: process.argv.slice(2) }))')
  write('scripts/run.mjs', readFileSync(join(root, 'scripts/run.mjs'), 'utf8'))
  const done = spawnSync(process.execPath, ['scripts/run.mjs', 'start', '--json'], {
    cwd: checkout,
    encoding: 'utf8',
    env: { ...process.env, npm_execpath: join(checkout, 'npm.cjs'), INIT_CWD: checkout },
  })
  assert.equal(done.stdout, '{"ready":true,"words":["up","--json"]}\n', done.stderr)
  assert.match(done.stderr, /added 3 packages[^]*vite builds/)
})

test('an unknown task is reported in one sentence', () => {
  const run = (...words: string[]): [number | null, string] => {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/run.mjs', ...words], {
      cwd: root,
      encoding: 'utf8',
    })
    return [status, stderr]
  }
  const [status, text] = run('nonsense')
  assert.equal(status, 1)
  assert.match(text, /^Unknown task "nonsense"\. Known: start, test, check, bench/)
})

test('an uncaught error fails its test file, although node:test cannot follow promises', () => {
  const script = `
    const { test } = await import('node:test')
    test('passes too early', async () => {
      const thrown = Promise.withResolvers()
      await null
      setImmediate(() => {
        setImmediate(() => thrown.resolve())
        throw new Error('thrown outside of every test')
      })
      await thrown.promise
    })`
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const words = ['--import', resolve(root, 'scripts/no-test-hook.mjs'), '--input-type=module', '-e', script]
  const done = spawnSync(process.execPath, words, { encoding: 'utf8', env })
  assert.equal(done.status, 1)
  assert.match(done.stdout, /pass 1\n/)
  assert.match(done.stderr, /^Error: thrown outside of every test\n {4}at /)
})
