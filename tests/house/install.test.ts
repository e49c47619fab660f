/** `npm start` fetches what running needs, `npm test` the rest, and neither fetches anything twice. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  appendFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { test } from 'node:test'

const root = resolve(import.meta.dirname, '../..')
const { ownBinaries } = (await import(join(root, 'scripts/install.mjs'))) as {
  readonly ownBinaries: (names: readonly string[]) => readonly string[]
}
const MB = 1024 ** 2
/** 450 MB in all, less Node (211) and the clone with its history (41). */
const ROOM = 198 * MB

/** Records its words, and leaves what npm would: machine code for several platforms, and a filled cache. */
const NPM = `
import { appendFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
const words = process.argv.slice(2)
appendFileSync('npm.log', words.filter((word) => /^(ci|install|--omit.*|--include.*|--no-save)$/.test(word)).join(' ') + '\\n')
if (existsSync('npm-fails')) process.exit(1)
const quic = 'node_modules/@currentspace/http3'
mkdirSync(quic, { recursive: true })
for (const name of ['aix-x64', 'freebsd-arm64', process.platform + '-' + process.arch + '-gnu'])
  writeFileSync(quic + '/http3.' + name + '.node', '')
writeFileSync(quic + '/index.js', '')
mkdirSync('node_modules/sodium-native/prebuilds/freebsd-x64', { recursive: true })
writeFileSync(words[words.indexOf('--cache') + 1] + '/tarball', '')
`

/** A checkout with the set-up, a fake npm, and tasks that do nothing. */
class Checkout {
  readonly path: string = mkdtempSync(join(tmpdir(), 'static-install-'))

  constructor() {
    for (const name of ['run.mjs', 'install.mjs'])
      this.write(`scripts/${name}`, readFileSync(join(root, 'scripts', name)))
    this.write('package-lock.json', '{}')
    this.write('npm.mjs', NPM)
    this.write('packages/console/src/main.ts', '')
    this.write('packages/console/index.html', '')
    this.write('packages/console/build.ts', '')
    this.write('packages/cli/src/main.js', `process.stdout.write('started')`)
    this.write('scripts/test.ts', `process.stdout.write('tested')`)
  }

  write(name: string, content: string | Buffer): void {
    mkdirSync(dirname(join(this.path, name)), { recursive: true })
    writeFileSync(join(this.path, name), content)
  }

  has(name: string): boolean {
    return existsSync(join(this.path, name))
  }

  /** Runs a task and returns its output and what npm was asked to do. */
  run(task: string): [output: string, npm: string[]] {
    rmSync(join(this.path, 'npm.log'), { force: true })
    const env = { ...process.env, npm_execpath: join(this.path, 'npm.mjs') }
    const words = [join(this.path, 'scripts/run.mjs'), task]
    const { stdout } = spawnSync(process.execPath, words, { cwd: this.path, encoding: 'utf8', env })
    const log = this.has('npm.log') ? readFileSync(join(this.path, 'npm.log'), 'utf8').trim().split('\n') : []
    return [stdout, log]
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true })
  }
}

test('start installs what runs, test adds the rest, and after that neither installs anything', () => {
  using checkout = new Checkout()
  assert.deepEqual(checkout.run('start'), ['started', ['ci --omit=dev']])
  assert.ok(!checkout.has('.cache/npm'), 'the cache of npm is kept')
  assert.deepEqual(checkout.run('start'), ['started', []])
  assert.deepEqual(checkout.run('test'), ['tested', ['install --no-save --include=dev']])
  // The test of the packed packages installs from it.
  assert.ok(checkout.has('.cache/npm/tarball'))
  assert.deepEqual(checkout.run('start'), ['started', []])
  assert.deepEqual(checkout.run('test'), ['tested', []])
})

test('test on a fresh clone installs everything at once', () => {
  using checkout = new Checkout()
  assert.deepEqual(checkout.run('test'), ['tested', ['ci --include=dev']])
  assert.deepEqual(checkout.run('start'), ['started', []])
})

test('a changed lock or an interrupted installation starts over', () => {
  using checkout = new Checkout()
  checkout.run('test')
  appendFileSync(join(checkout.path, 'package-lock.json'), '\n')
  assert.deepEqual(checkout.run('start'), ['started', ['ci --omit=dev']])
  checkout.write('npm-fails', '')
  assert.deepEqual(checkout.run('test'), ['', ['install --no-save --include=dev']])
  assert.deepEqual(checkout.run('start'), ['', ['ci --omit=dev']])
  assert.ok(!checkout.has('.cache/npm'))
  rmSync(join(checkout.path, 'npm-fails'))
  assert.deepEqual(checkout.run('start'), ['started', ['ci --omit=dev']])
})

test('machine code for other platforms is deleted where there is some for this one', () => {
  using checkout = new Checkout()
  checkout.run('start')
  const quic = readdirSync(join(checkout.path, 'node_modules/@currentspace/http3'))
  assert.deepEqual(quic.sort(), [`http3.${process.platform}-${process.arch}-gnu.node`, 'index.js'])
  assert.ok(checkout.has('node_modules/sodium-native/prebuilds/freebsd-x64'))
})

test('what npm start fetches fits, and has the tools of the console but none of the tests', (t) => {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; link?: boolean }>
  }
  const runs = Object.entries(packages)
    .filter(([at, { dev, link }]) => at.includes('node_modules/') && dev !== true && link !== true)
    .map(([at]) => at)
  const names = new Set(runs.map((at) => at.replace(/^.*node_modules\//, '')))
  for (const name of ['vite', 'preact', '@currentspace/http3', 'ts-mls', 'fastify']) assert.ok(names.has(name), name)
  for (const name of ['typescript', 'oxlint', 'oxfmt', 'knip', 'playwright-core', '@bufbuild/buf', 'fast-check'])
    assert.ok(!names.has(name), name)
  const size = runs.reduce((sum, at) => sum + sizeOf(join(root, at)), 0)
  t.diagnostic(`${(size / MB).toFixed(0)} MB of packages`)
  assert.ok(size > 50 * MB && size < ROOM, `${size}`)
})

/** Bytes on disk of a package without what is deleted of it, and without packages inside it. */
function sizeOf(path: string): number {
  // Packages for other platforms are not installed.
  if (!existsSync(path)) return 0
  const own = ownBinaries(readdirSync(path))
  let sum = 0
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const at = join(path, entry.name)
    if (entry.name === 'node_modules' || !own.includes(entry.name)) continue
    sum += entry.isDirectory() ? sizeOf(at) : lstatSync(at).blocks * 512
  }
  return sum
}
