/**
 * Two agents and a relay, each in a process of its own and durable on its disk: how long a message takes there and
 * back, how many a second go one way, and what each of the three spends on one. 1 KiB payloads, over QUIC and gRPC.
 * Agents: MLS, SQLCipher with synchronous=FULL. Relay: `static up`, SQLite with synchronous=FULL.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { startServer } from '../tests/support/server.ts'
import { makeWorkspace } from '../tests/support/workspace.ts'
import { median } from './api/processor.ts'
import { startAgent, type AgentProcess } from './agent/process.ts'

const ROUNDS = 3
const MESSAGES = 4000
const WINDOW = 64
const ROUND_TRIPS = 500
const FAN_OUT = 10
const FAN_OUT_MESSAGES = 500
const TICKS_PER_SECOND = 100

const profile = process.env['STATIC_BENCH_PROFILE'] === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir=bench/results']
using workspace = await makeWorkspace()
const dataDir = workspace.directory('server')
await using server = await startServer({
  workspace,
  dataDir,
  command: 'up',
  settings: { quota: { free: null } },
  logLevel: 'silent',
  nodeFlags: profile,
})
const ca = join(dataDir, 'ca.pem')
const apiKey = await signUp()

/** An account of the system under test. */
async function signUp(): Promise<string> {
  const body = JSON.stringify({ email: 'bench@example.com', password: 'correct horse battery staple' })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const headers = { 'content-type': 'application/json' }
  const sending = request(
    `${server.url}/v1/accounts`,
    { method: 'POST', ca: readFileSync(ca), headers },
    (response) => void text(response).then(resolve, reject),
  )
  sending.on('error', reject)
  sending.end(body)
  const { api_key: key } = JSON.parse(await promise) as { api_key: { key: string } }
  return key.key
}

function agent(name: string, endpoint: string): Promise<AgentProcess> {
  const directory = workspace.directory(name)
  return startAgent({ endpoint, dataDir: directory, identity: name, apiKey, apiUrl: server.url, ca }, profile)
}

/** CPU microseconds that the server has used. */
function serverCpu(): number {
  const fields = readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1_000_000
}

function percentile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return Number((sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(2))
}

async function channelOf(owner: AgentProcess, others: readonly AgentProcess[], name: string): Promise<void> {
  await owner.ask({ type: 'create', name }, 'done')
  const keyPackages: string[] = []
  for (const other of others) keyPackages.push((await other.ask({ type: 'keyPackage' }, 'bytes')).base64)
  const { base64 } = await owner.ask({ type: 'add', keyPackages }, 'welcomes')
  for (const [at, other] of others.entries()) {
    await other.ask({ type: 'join', name, welcome: base64[at] ?? '' }, 'done')
  }
}

/** So many messages from one to the others. */
async function stream(
  sender: AgentProcess,
  receivers: readonly AgentProcess[],
  count: number,
): Promise<{ perSecond: number; sender: number; relay: number; receiver: number }> {
  const before = serverCpu()
  const start = performance.now()
  const receiving = receivers.map((receiver) => receiver.ask({ type: 'receive', count }, 'done'))
  const [sent, ...received] = await Promise.all([
    sender.ask({ type: 'send', count, window: WINDOW }, 'done'),
    ...receiving,
  ])
  const seconds = (performance.now() - start) / 1000
  return {
    perSecond: Math.round(count / seconds),
    sender: Math.round(sent.cpu / count),
    relay: Math.round((serverCpu() - before) / count),
    receiver: Math.round(received.reduce((sum, { cpu }) => sum + cpu, 0) / count / receivers.length),
  }
}

const results: Record<string, unknown> = {}
for (const way of ['quic', 'grpc'] as const) {
  const endpoint =
    way === 'quic' ? `quic://localhost:${server.relay.quicPort}` : `https://localhost:${server.relay.grpcPort}`
  {
    await using one = await agent(`${way}-one`, endpoint)
    await using other = await agent(`${way}-other`, endpoint)
    await channelOf(one, [other], `bench/${way}/pair`)
    await stream(one, [other], MESSAGES / 2)
    const runs: Awaited<ReturnType<typeof stream>>[] = []
    for (let round = 0; round < ROUNDS; round++) runs.push(await stream(one, [other], MESSAGES))
    await other.ask({ type: 'echo' }, 'done')
    const { times } = await one.ask({ type: 'roundTrips', count: ROUND_TRIPS }, 'times')
    await other.ask({ type: 'stopEcho' }, 'done')
    const of = (field: keyof (typeof runs)[number]): number => median(runs.map((run) => run[field]))
    results[way] = {
      roundTripMs: { p50: percentile(times, 0.5), p99: percentile(times, 0.99) },
      messagesPerSecond: of('perSecond'),
      cpuMicroseconds: { sender: of('sender'), relay: of('relay'), receiver: of('receiver') },
    }
    console.log(way, JSON.stringify(results[way]))
  }
  {
    const crowd = await Promise.all(Array.from({ length: FAN_OUT }, (_, at) => agent(`${way}-crowd-${at}`, endpoint)))
    await using owner = await agent(`${way}-owner`, endpoint)
    await channelOf(owner, crowd, `bench/${way}/crowd`)
    await stream(owner, crowd, FAN_OUT_MESSAGES / 2)
    const { perSecond, ...cpuMicroseconds } = await stream(owner, crowd, FAN_OUT_MESSAGES)
    results[`${way}FanOut${FAN_OUT}`] = { deliveriesPerSecond: perSecond * FAN_OUT, cpuMicroseconds }
    console.log(way, `fan-out ${FAN_OUT}`, JSON.stringify(results[`${way}FanOut${FAN_OUT}`]))
    for (const member of crowd) await member[Symbol.asyncDispose]()
  }
}
writeFileSync(join(import.meta.dirname, 'results/agent.json'), `${JSON.stringify(results, null, 2)}\n`)
