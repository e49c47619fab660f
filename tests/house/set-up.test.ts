import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { test } from 'node:test'

const root = resolve(import.meta.dirname, '../..')

/** Fetches nothing the first time, as without lists of packages; then leaves an archive. */
const APT_GET = `#!/bin/sh
echo "$*" >> "$LOG"
case "$*" in update*) touch "$LOG.lists"; exit;; esac
[ -e "$LOG.lists" ] || exit 100
for word; do case "$word" in -oDir::Cache::archives=*) touch "\${word#*=}/hello.deb";; esac; done
`
const DPKG_DEB = `#!/bin/sh
mkdir -p "$3/usr/bin" "$3/usr/lib/$(uname -m)-linux-gnu" && touch "$3/usr/bin/hello"
`

test('a user who is not root gets the packages of Debian unpacked below .cache, and programs find them', (t) => {
  const checkout = mkdtempSync(join(tmpdir(), 'static-checkout-'))
  t.after(() => rmSync(checkout, { recursive: true }))
  for (const name of ['scripts', 'bin']) mkdirSync(join(checkout, name))
  for (const name of ['debian.ts', 'step.ts'])
    writeFileSync(join(checkout, 'scripts', name), readFileSync(join(root, 'scripts', name)))
  writeFileSync(join(checkout, 'bin/apt-get'), APT_GET, { mode: 0o755 })
  writeFileSync(join(checkout, 'bin/dpkg-deb'), DPKG_DEB, { mode: 0o755 })
  const script = `
    process.getuid = () => 1000
    const { ensureDebian } = await import(${JSON.stringify(join(checkout, 'scripts/debian.ts'))})
    const paths = []
    for (const _ of [1, 2]) paths.push(await ensureDebian('hello', '/usr/{bin,sbin}/hello', 'The test suite'))
    const { PATH, LD_LIBRARY_PATH } = process.env
    console.log(JSON.stringify({ paths, PATH, LD_LIBRARY_PATH }))`
  const log = join(checkout, 'log')
  const path = `${join(checkout, 'bin')}:/usr/bin:/bin`
  const done = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    env: { PATH: path, LOG: log },
  })
  const unpacked = join(checkout, '.cache/debian')
  const program = join(unpacked, 'usr/bin/hello')
  const { paths, PATH, LD_LIBRARY_PATH } = JSON.parse(done.stdout) as Record<string, string>
  assert.deepEqual(paths, [program, program], done.stderr)
  assert.equal(PATH, `${join(unpacked, 'usr/bin')}:${path}`)
  assert.match(LD_LIBRARY_PATH!, /\/usr\/lib\/\w+-linux-gnu$/)
  assert.deepEqual(readFileSync(log, 'utf8').match(/^\w+/gm), ['install', 'update', 'install'])
})

test("the output of a first start's installing and building goes to stderr, so that stdout has only the line of --json", (t) => {
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
  write('packages/cli/src/main.js', 'console.log(JSON.stringify({ ready: true, words: process.argv.slice(2) }))')
  for (const name of ['run.mjs', 'install.mjs', 'lock.mjs']) {
    write(`scripts/${name}`, readFileSync(join(root, 'scripts', name), 'utf8'))
  }
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

/** Runs a test file as `npm test` does, with the tests in it. */
function runTestFile(tests: string): { status: number | null; stdout: string; stderr: string } {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const script = `const { after, before, beforeEach, describe, test } = await import('node:test')\n${tests}`
  const words = ['--import', resolve(root, 'scripts/no-test-hook.mjs'), '--input-type=module', '-e', script]
  return spawnSync(process.execPath, words, { encoding: 'utf8', env })
}

test('an uncaught error fails its test file, although node:test does not follow promises', () => {
  const done = runTestFile(`
    test('passes too early', async () => {
      const thrown = Promise.withResolvers()
      await null
      setImmediate(() => {
        setImmediate(() => thrown.resolve())
        throw new Error('thrown outside of every test')
      })
      await thrown.promise
    })`)
  assert.equal(done.status, 1)
  assert.match(done.stdout, /pass 1\n/)
  assert.match(done.stderr, /^Error: thrown outside of every test\n {4}at /)
})

test('the hooks of a suite are for its tests alone', () => {
  const done = runTestFile(`
    const say = (word) => () => void process.stderr.write(word + ' ')
    describe('outer', () => {
      before(say('open'))
      after(say('close'))
      beforeEach(say('each'))
      test('one', async (t) => {
        await null
        await t.test('inner', say('inner'))
      })
      describe('nested', () => void test('two', say('two')))
    })
    test('three', say('three'))`)
  assert.equal(done.stderr, 'open each each inner each two close three ')
  assert.match(done.stdout, /▶ outer\n {2}▶ one\n {4}✔ inner .*\n {2}✔ one .*\n {2}▶ nested\n {4}✔ two /)
  assert.equal(done.status, 0)
})
