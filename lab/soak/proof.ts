/**
 * `npm run proof -- soak [--minutes 60]`: `static up` and eight agents in steady use: messages over QUIC and gRPC with
 * receipts, members that come and go, keys, tokens and sessions. Memory, descriptors and files must stay level after a
 * warm-up, and every message must arrive once and in order.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Channel, StaticChannelManager } from '@static/sdk'
import { startServer } from '@static/testkit/server'
import { makeKey, PASSWORD, signUp } from '@static/testkit/server/accounts'
import { makeClient } from '@static/testkit/server/client'
import { HIGH_RATES } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { fail, say } from '../../scripts/step.ts'
import { fileLevels, type Levels, processLevels, risesOf } from './levels.ts'

const { minutes } = parseArgs({ options: { minutes: { type: 'string', default: '60' } } }).values
const TOTAL_MS = Number(minutes) * 60_000
if (!(TOTAL_MS > 0)) fail(`--minutes ${minutes} is not a number of minutes. Use, for example, --minutes 60.`)
/** Caches fill and files take their size. */
const WARM_UP_MS = Math.min(TOTAL_MS / 3, 10 * 60_000)
const SAMPLE_MS = Math.max(1000, TOTAL_MS / 240)
const PAIRS = 4
/** Pauses between two messages of one sender, two rounds of calls to the API, and two changes of a group. */
const MESSAGE_MS = 100
const CALLS_MS = 1000
const CHANGE_MS = 5000
const ARRIVAL_MS = 30_000

interface Pair {
  readonly name: string
  readonly owner: StaticChannelManager
  readonly member: StaticChannelManager
  readonly channel: Channel
  sent: number
  received: number
}

using workspace = await makeWorkspace()
const dataDir = workspace.directory('server')
const settings = { quota: { free: null }, rates: HIGH_RATES }
await using server = await startServer({ workspace, dataDir, command: 'up', settings, logLevel: 'silent' })
const ca = readFileSync(join(dataDir, 'ca.pem'), 'utf8')
using client = makeClient(server.url, ca)
const account = await signUp(client, 'soak@example.com')
const agents = workspace.directory('agents')
const faults: string[] = []
const pairs = await Promise.all(Array.from({ length: PAIRS }, (_, at) => makePair(at)))
say(`${2 * PAIRS} agents in steady use for ${minutes} minutes`)

const started = performance.now()
const isOver = (): boolean => performance.now() - started >= TOTAL_MS
const samples: Levels[] = []
let [calls, changes] = [0, 0]
await Promise.all([
  ...pairs.map((pair) => repeat(MESSAGE_MS, () => send(pair))),
  ...pairs.slice(0, 2).map((pair) => repeat(CHANGE_MS, () => change(pair))),
  repeat(CALLS_MS, callApi),
  repeat(SAMPLE_MS, sample),
])
for (let waited = 0; waited < ARRIVAL_MS && pairs.some((pair) => pair.received < pair.sent); waited += 100)
  await pause(100)
const sent = pairs.reduce((sum, pair) => sum + pair.sent, 0)
for (const { name, sent: all, received } of pairs) {
  if (received !== all) faults.push(`${name}: ${received} of ${all} messages arrived`)
}
for (const { name, from, to, isLevel } of risesOf(samples)) {
  const text = `${name}: ${shown(name, from)} → ${shown(name, to)}`
  process.stdout.write(`${isLevel ? '✔' : '✘'} ${text}\n`)
  if (!isLevel) faults.push(`${text} is not level`)
}
await Promise.all(pairs.flatMap(({ owner, member }) => [owner.close(), member.close()]))
await server.end('SIGTERM')
const text = `${minutes} minutes, ${sent} messages, ${calls} calls, ${changes} changes of groups`
if (faults.length > 0) fail(`${text}:\n${faults.join('\n')}`)
process.stdout.write(`promise T1: soak: ${text}, 0 lost; memory, descriptors and files level\n`)
process.stdout.write(`promise T4: soak: ${sent} messages, each arrived once and in order\n`)

async function makePair(at: number): Promise<Pair> {
  const { grpcPort, quicPort } = server.relay
  const endpoint = at % 2 === 0 ? `https://localhost:${grpcPort}` : `quic://localhost:${quicPort}`
  const options = { apiUrl: server.url, apiKey: account.api_key.key, ca, endpoint, fallback: false } as const
  const open = (identity: string): Promise<StaticChannelManager> =>
    StaticChannelManager.connect({ ...options, identity, dataDir: join(agents, identity) })
  const [owner, member] = [await open(`owner-${at}`), await open(`member-${at}`)]
  const name = `soak/pair/p${at}`
  await owner.client.createChannel(name)
  const joined = await member.joinWithToken(name, await owner.invite(name))
  const pair: Pair = { name, owner, member, channel: joined, sent: 0, received: 0 }
  void read(pair).catch((error: unknown) => faults.push(`${name}: reading failed: ${String(error)}`))
  return pair
}

/** Each message carries its number. */
async function read(pair: Pair): Promise<void> {
  for await (const message of pair.channel.messages()) {
    const number = Number(new TextDecoder().decode(message).split(' ')[0])
    if (number !== pair.received + 1) faults.push(`${pair.name}: message ${number} after ${pair.received}`)
    pair.received = number
  }
}

async function send(pair: Pair): Promise<void> {
  const number = pair.sent + 1
  await pair.owner.send(pair.name, `${number} ${'x'.repeat((number * 37) % 2000)}`)
  pair.sent = number
}

async function change({ owner, name }: Pair): Promise<void> {
  await owner.client.channel(name).rotate()
  changes++
}

/** Acts as a program and a person do: gets a token, makes and deletes a key, and signs in. */
async function callApi(): Promise<void> {
  const { key } = account.api_key
  await client.json(200, { method: 'POST', path: '/v1/tokens', key })
  const { id } = await makeKey(client, key, { name: 'for a while' })
  await client.call({ method: 'DELETE', path: `/v1/keys/${id}`, key })
  await client.json(200, { path: '/v1/usage', key })
  await client.json(201, { method: 'POST', path: '/v1/sessions', body: { email: account.email, password: PASSWORD } })
  calls += 5
}

async function sample(): Promise<void> {
  if (performance.now() - started < WARM_UP_MS) return
  samples.push({
    ...processLevels('server', server.pid),
    ...processLevels('agents', process.pid),
    ...fileLevels('server', dataDir),
    ...fileLevels('agents', agents),
  })
}

async function repeat(everyMs: number, work: () => Promise<void>): Promise<void> {
  while (!isOver()) {
    const next = performance.now() + everyMs
    await work()
    await pause(Math.max(0, next - performance.now()))
  }
}

function shown(name: string, value: number): string {
  return name.endsWith('descriptors') ? String(value) : `${(value / 1024 / 1024).toFixed(1)} MiB`
}
