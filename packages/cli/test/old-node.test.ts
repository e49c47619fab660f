/** With an old Node, `static` starts the one that was installed with the checkout, or says what it needs. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'

const SOURCES = resolve(import.meta.dirname, '../src')
/** A Node that believes to be an old one. */
const OLD = [
  '--import',
  `data:text/javascript,Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })`,
]
const home = mkdtempSync(join(tmpdir(), 'static-old-node-'))
const checkout = join(home, 'checkout')
const bin = join(checkout, 'node_modules/.bin')
const link = join(bin, 'node')
/** Elsewhere, such as where a version manager keeps it. */
const node = join(home, 'nodes/26/node')
const main = join(checkout, 'packages/cli/src/main.js')
mkdirSync(join(checkout, 'packages/cli/src'), { recursive: true })
mkdirSync(bin, { recursive: true })
mkdirSync(dirname(node), { recursive: true })
for (const name of ['main.js', 'old-node.js'])
  copyFileSync(join(SOURCES, name), join(checkout, 'packages/cli/src', name))
writeFileSync(join(checkout, 'packages/cli/package.json'), '{"type":"module"}')
// The rest of the command: says how it was started, and ends as its first word says.
writeFileSync(
  join(checkout, 'packages/cli/src/start.js'),
  `const [how] = process.argv.slice(2)
  process.once('disconnect', () => process.exit(console.error('alone')))
  console.log(process.argv.slice(2).join(' '), process.env.STATIC_OLD_NODE)
  if (how === 'wait') setInterval(() => {}, 1000)
  else if (how === 'die') process.kill(process.pid, 'SIGKILL')
  else process.exit(3)`,
)
writeFileSync(node, `#!/bin/sh\nexec '${process.execPath}' "$@"\n`, { mode: 0o755 })
symlinkSync(node, link)
after(() => rmSync(home, { recursive: true }))

interface Ended {
  readonly code: unknown
  readonly signal: unknown
  readonly stdout: string
  readonly stderr: string
}

function run(...words: string[]): Promise<Ended> {
  return new Promise((done) => {
    execFile(process.execPath, [...OLD, main, ...words], (error, stdout, stderr) =>
      done({ code: error?.code ?? 0, signal: error?.signal ?? null, stdout, stderr }),
    )
  })
}

void test('an old Node hands over to the Node of the checkout, with the words, the exit code and the signal', async () => {
  assert.deepEqual(await run('one', 'two words'), {
    code: 3,
    signal: null,
    stdout: 'one two words 20.20.2\n',
    stderr: '',
  })
  assert.equal((await run('die')).signal, 'SIGKILL')
})

void test('signals reach the command, and it ends when the old Node is killed', async () => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGKILL'] as const) {
    const child = spawn(process.execPath, [...OLD, main, 'wait'], { stdio: ['ignore', 'pipe', 'pipe'] })
    await once(createInterface(child.stdout), 'line')
    let errors = ''
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
    // The command has the other end of the pipe.
    const ended = Promise.all([once(child, 'exit'), once(child.stderr, 'close')])
    child.kill(signal)
    await ended
    assert.deepEqual([child.signalCode, errors], [signal, signal === 'SIGKILL' ? 'alone\n' : ''])
  }
})

void test('a Node that someone else could have put there is not started, and one sentence says why', async () => {
  const needs = `static needs Node 24 or newer, and this is Node 20.20.2 (${process.execPath})`
  const refused = async (why: string): Promise<void> => {
    const { code, stdout, stderr } = await run('one')
    assert.deepEqual([code, stdout, stderr], [1, '', `${needs}${why}\n`])
  }
  const rest = 'or put a newer one first in your PATH.'
  for (const path of [node, dirname(node), bin, checkout]) {
    for (const mode of [0o775, 0o757]) {
      chmodSync(path, mode)
      const why = `others can write to ${path}: run \`chmod go-w ${path}\``
      await refused(`; the Node of this checkout is not used, because ${why}, ${rest}`)
      chmodSync(path, 0o755)
    }
  }
  // As /tmp: what is in it can be replaced by its owner alone.
  chmodSync(home, 0o1777)
  assert.equal((await run('one')).code, 3)
  chmodSync(home, 0o755)
  if (process.getuid?.() === 0) {
    chownSync(node, 65_534, 0)
    const why = `${node} belongs to another user: install the checkout as this user`
    await refused(`; the Node of this checkout is not used, because ${why}, ${rest}`)
    chownSync(node, 0, 0)
  }
  rmSync(node)
  await refused(': install a newer one and put it first in your PATH.')
})

void test('the command and package.json ask for the same Node', () => {
  const { engines } = JSON.parse(readFileSync(join(SOURCES, '../package.json'), 'utf8')) as {
    engines: { node: string }
  }
  const [, oldest] = /OLDEST_NODE = (\d+)/.exec(readFileSync(join(SOURCES, 'main.js'), 'utf8')) ?? []
  assert.equal(engines.node, `>=${oldest}`)
})
