/**
 * The SDK in Bun and Deno, installed from its tarballs, without QUIC: `npm run proof -- runtimes`. Each runtime trusts
 * the local authority of `static up`, and takes up the directories of agents that the others left.
 */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { startServer } from '@static/testkit/server'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { installSdk, ROOT } from '../../tests/pack/installed.ts'

const { STATIC_RUNTIMES: folder = '' } = process.env
const start = promisify(execFile)

/** A runtime: its program, with the words before that of a file. */
type Runtime = readonly string[]
const node: Runtime = [process.execPath]
const bun = runtime('@oven/bun-*/bin/bun')
const deno = runtime('@deno/*/deno', 'run', '--allow-all')
const runtimes = { Node: node, Bun: bun, Deno: deno }

const project = mkdtempSync(join(tmpdir(), 'static-runtimes-'))
const workspace = await makeWorkspace()
process.once('exit', () => {
  workspace[Symbol.dispose]()
  rmSync(project, { recursive: true, force: true })
})
await installSdk(project)
copyFileSync(join(import.meta.dirname, 'party.mjs'), join(project, 'party.mjs'))

const home = workspace.directory('home')
const dataDir = join(home, '.local/share/static/server')
const server = await startServer({ workspace, dataDir, command: 'up', logLevel: 'silent' })
after(() => server.end('SIGTERM'))
const env = {
  HOME: home,
  PATH: '/usr/bin:/bin',
  STATIC_GRPC_PORT: String(server.relay.grpcPort),
  DENO_NO_UPDATE_CHECK: '1',
}
const usual = { env, cwd: project, timeout: 120_000 }
// By its name: Bun rejects addresses under the constraints of the authority.
const api = `https://localhost:${new URL(server.url).port}`
const address = `--api-url ${api} --relay quic://localhost:${server.relay.quicPort}`
const signup = `${process.execPath} ${join(ROOT, 'packages/cli/src/main.js')} signup --email you@example.com --password-stdin`
await start('bash', ['-c', `echo 'choose a good one' | ${signup} ${address}`], usual)

function runtime(pattern: string, ...words: readonly string[]): Runtime {
  const [program] = globSync(resolve(folder, 'node_modules', pattern))
  if (program === undefined) return []
  chmodSync(program, 0o755)
  return [program, ...words]
}

/** Runs a file of the project; resolves to what it prints. */
async function run([program = '', ...flags]: Runtime, ...words: readonly string[]): Promise<string> {
  return (await start(program, [...flags, ...words], usual)).stdout
}

/** Runs a party that is killed once it has heard an answer. */
async function runToDeath(
  [program = '', ...flags]: Runtime,
  traffic: string,
  ...words: readonly string[]
): Promise<string> {
  const party = spawn(program, [...flags, 'party.mjs', ...words], { ...usual, env: { ...env, TRAFFIC: traffic } })
  let said = ''
  for (const output of [party.stdout, party.stderr]) output.on('data', (text: Buffer) => (said += text.toString()))
  const [, signal] = (await once(party, 'close')) as [number | null, string | null]
  return `${said.trim()}, ${signal ?? 'not killed'}`
}

/** Starts the owner of a channel; resolves to its invite, and how to kill it. */
async function own([program = '', ...flags]: Runtime, name: string): Promise<{ token: string; kill: () => void }> {
  const place = join(home, name.replaceAll('/', '-'))
  const party = spawn(program, [...flags, 'party.mjs', place, 'own', name], {
    ...usual,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const token of createInterface(party.stdout)) return { token, kill: () => party.kill('SIGKILL') }
  throw new Error('The owner of the channel ended.')
}

const [, example = ''] = /```ts\n([\s\S]*?)```/.exec(readFileSync(join(ROOT, 'README.md'), 'utf8')) ?? []
const missing = (program: Runtime): string | false => program.length === 0 && 'npm has none for this machine'

for (const [name, program] of Object.entries(runtimes)) {
  test(`${name}: the program of the README, without QUIC`, { skip: missing(program) }, async () => {
    const file = `readme-${name}.mjs`
    const named = example.replaceAll('./', `${home}/readme-${name}-`)
    writeFileSync(join(project, file), `import process from 'node:process'\n${named}\nprocess.exit(0)\n`)
    assert.equal(await run(program, file), 'hello\n')
  })

  test(
    `${name}: the vectors of Ed25519, by libsodium and by what the runtime has itself`,
    { skip: missing(program) },
    async () => {
      assert.equal(await run(program, join(ROOT, 'packages/node/test/ed25519-child.ts')), 'libsodium\n')
    },
  )

  test(`${name}: the vectors of ML-KEM-768`, { skip: missing(program) }, async (t) => {
    const said = await run(program, join(ROOT, 'packages/sdk/test/platform/ml-kem-child.ts'))
    assert.match(said, name === 'Node' ? /^node:crypto, \d+ vectors\n$/ : /, \d+ vectors\n$/)
    t.diagnostic(said.trim())
  })
}

const PAIRS = [
  ['Node', 'Bun'],
  ['Bun', 'Node'],
  ['Node', 'Deno'],
  ['Deno', 'Node'],
  ['Bun', 'Deno'],
] as const
for (const [owner, member] of PAIRS) {
  const [first, second] = [runtimes[owner], runtimes[member]]
  const skip = missing(first) || missing(second)
  test(`an agent in ${member} joins one in ${owner}, is killed, and goes on in each runtime`, { skip }, async () => {
    const name = `acme/${owner.toLowerCase()}/${member.toLowerCase()}`
    const { token, kill } = await own(first, name)
    const place = join(home, `${owner}-${member}`)
    assert.equal(await runToDeath(second, 'standard', place, 'join', name, token), 'heard, SIGKILL')
    for (const next of [second, ...Object.values(runtimes).filter((next) => next.length > 0)])
      assert.equal(await run(next, 'party.mjs', place, 'return', name), 'heard\n')
    kill()
  })
}

for (const name of ['Bun', 'Deno'] as const) {
  test(`${name}: a thread keeps the time of the profile strict`, { skip: missing(runtimes[name]) }, async () => {
    const channel = `acme/strict/${name.toLowerCase()}`
    const { token, kill } = await own(node, channel)
    const place = join(home, `strict-${name}`)
    assert.equal(await runToDeath(runtimes[name], 'strict', place, 'join', channel, token), 'heard, SIGKILL')
    kill()
  })
}
