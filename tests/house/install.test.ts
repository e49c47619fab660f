/** `npm start` fetches what running needs, `npm test` the rest, and neither fetches anything twice. */
import assert from 'node:assert/strict'
import { type ChildProcessByStdio, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
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
import type { Readable } from 'node:stream'
import { test } from 'node:test'

const root = resolve(import.meta.dirname, '../..')
const { ownBinaries } = (await import(join(root, 'scripts/install.mjs'))) as {
  readonly ownBinaries: (names: readonly string[]) => readonly string[]
}
const MB = 1024 ** 2
/** 450 million bytes in all, less Node (151) and the clone with its history (52); some are left for growth. */
const ROOM = 210 * MB

/** Records its words, and leaves what npm would: machine code for several platforms, and a filled cache. */
const NPM = `
import { appendFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
const words = process.argv.slice(2)
appendFileSync('npm.log', words.filter((word) => /^(ci|install|--omit.*|--include.*|--no-save)$/.test(word)).join(' ') + '\\n')
if (existsSync('npm-fails')) process.exit(1)
while (existsSync('npm-hangs')) await wait(10)
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
    for (const name of ['run.mjs', 'install.mjs', 'lock.mjs', 'start-help.txt'])
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
  run(...task: string[]): [output: string, npm: string[]] {
    rmSync(join(this.path, 'npm.log'), { force: true })
    const { stdout } = spawnSync(process.execPath, this.#words(task), { ...this.#options, encoding: 'utf8' })
    return [stdout, this.npm]
  }

  /** Starts a task. */
  start(...task: string[]): Task {
    return new Task(spawn(process.execPath, this.#words(task), { ...this.#options, stdio: ['ignore', 'pipe', 'pipe'] }))
  }

  /** What npm was asked to do. */
  get npm(): string[] {
    return this.has('npm.log') ? readFileSync(join(this.path, 'npm.log'), 'utf8').trim().split('\n') : []
  }

  get #options(): { readonly cwd: string; readonly env: NodeJS.ProcessEnv } {
    return { cwd: this.path, env: { ...process.env, npm_execpath: join(this.path, 'npm.mjs') } }
  }

  #words(task: readonly string[]): string[] {
    return [join(this.path, 'scripts/run.mjs'), ...task]
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true })
  }
}

/** A task that runs. */
class Task {
  readonly pid: number
  readonly #child: ChildProcessByStdio<null, Readable, Readable>
  #output = ''

  constructor(child: ChildProcessByStdio<null, Readable, Readable>) {
    this.#child = child
    this.pid = child.pid!
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (this.#output += text))
  }

  /** Waits until it has printed this. */
  async prints(text: string): Promise<void> {
    while (!this.#output.includes(text))
      await Promise.race([once(this.#child.stdout, 'data'), once(this.#child.stderr, 'data'), this.#failsAtEnd()])
  }

  async #failsAtEnd(): Promise<void> {
    throw new Error(`it ended: ${await this.ends()}`)
  }

  async ends(): Promise<string> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, 'close')
    return this.#output
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  /** With what it has started. */
  [Symbol.dispose](): void {
    this.#child.kill('SIGTERM')
  }
}

test('two starts at once in a fresh clone install once: the second waits for the first', async () => {
  using checkout = new Checkout()
  checkout.write('npm-hangs', '')
  using first = checkout.start('start')
  await first.prints('Installing')
  using second = checkout.start('start')
  // The first line that it prints.
  await second.prints('→')
  rmSync(join(checkout.path, 'npm-hangs'))
  await second.prints(`Waiting for process ${first.pid}`)
  assert.match(await first.ends(), /started$/)
  assert.match(await second.ends(), /started$/)
  assert.deepEqual(checkout.npm, ['ci --omit=dev'])
})

test('the locks of a killed start, and of one that has finished but still runs, hold no one up', async () => {
  using checkout = new Checkout()
  checkout.write('npm-hangs', '')
  using killed = checkout.start('start')
  await killed.prints('Installing')
  using waits = checkout.start('start')
  await waits.prints('Waiting')
  killed.kill()
  await waits.prints('Installing')
  rmSync(join(checkout.path, 'npm-hangs'))
  assert.match(await waits.ends(), /started$/)
  // Runs until it is killed.
  checkout.write('packages/cli/src/main.js', `process.stdout.write('serves'); setInterval(() => {}, 1000)`)
  appendFileSync(join(checkout.path, 'package-lock.json'), '\n')
  using serves = checkout.start('start')
  await serves.prints('serves')
  assert.deepEqual(checkout.run('test'), ['tested', ['install --no-save --include=dev']])
})

test('help of start downloads nothing, and set-up starts nothing', () => {
  using checkout = new Checkout()
  for (const flag of ['--help', '-h']) {
    const [text, npm] = checkout.run('start', flag)
    assert.match(text, /^Usage: npm start -- \[options\]\n[^]*--data-dir/)
    assert.deepEqual(npm, [])
  }
  assert.deepEqual(checkout.run('setup'), ['', ['ci --omit=dev']])
  assert.deepEqual(checkout.run('start'), ['started', []])
})

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

test("machine code for other platforms is deleted where this platform's exists", () => {
  using checkout = new Checkout()
  checkout.run('start')
  const quic = readdirSync(join(checkout.path, 'node_modules/@currentspace/http3'))
  assert.deepEqual(quic.sort(), [`http3.${process.platform}-${process.arch}-gnu.node`, 'index.js'])
  assert.ok(checkout.has('node_modules/sodium-native/prebuilds/freebsd-x64'))
})

test("npm start fetches a bounded amount, with the console's tools but none of the tests", (t) => {
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
