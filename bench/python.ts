/**
 * Two agents in Python beside two in TypeScript, in one run on one relay: how many messages a second go one way, how
 * long one takes there and back, and what each side spends on one. 1 KiB payloads, 64 under way at once (in Python: 64
 * threads), durable on all disks. An agent in Python is two processes, its driver counted in. Target: at least 0.6
 * times the messages a second of TypeScript.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { startServer } from '../tests/support/server.ts'
import { makeWorkspace } from '../tests/support/workspace.ts'
import { startAgent, type AgentProcess } from './agent/process.ts'
import { median } from './api/processor.ts'
import { startPythonAgent } from './python/process.ts'

const ROUNDS = 5
const MESSAGES = 2000
const WINDOW = 64
const ROUND_TRIPS = 300
const TARGET = 0.6

const LANGUAGES = { typescript: startAgent, python: startPythonAgent } as const
type Language = keyof typeof LANGUAGES

using workspace = await makeWorkspace()
const dataDir = workspace.directory('server')
await using server = await startServer({
  workspace,
  dataDir,
  command: 'up',
  settings: { quota: { free: null } },
  logLevel: 'silent',
})
const ca = join(dataDir, 'ca.pem')
const apiKey = await signUp()

async function signUp(): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const headers = { 'content-type': 'application/json' }
  request(
    `${server.url}/v1/accounts`,
    { method: 'POST', ca: readFileSync(ca), headers },
    (response) => void text(response).then(resolve, reject),
  )
    .on('error', reject)
    .end(JSON.stringify({ email: 'bench@example.com', password: 'correct horse battery staple' }))
  return (JSON.parse(await promise) as { api_key: { key: string } }).api_key.key
}

interface Pair {
  readonly sender: AgentProcess
  readonly receiver: AgentProcess
}

/** Two agents of a language in a channel of their own. */
async function pair(language: Language, endpoint: string, name: string): Promise<Pair> {
  const start = (role: string): Promise<AgentProcess> => {
    const identity = `${name.replaceAll('/', '-')}-${role}`
    const directory = workspace.directory(identity)
    return LANGUAGES[language]({ endpoint, dataDir: directory, identity, apiKey, apiUrl: server.url, ca })
  }
  const [sender, receiver] = [await start('sender'), await start('receiver')]
  await sender.ask({ type: 'create', name }, 'done')
  const { base64 } = await receiver.ask({ type: 'keyPackage' }, 'bytes')
  const added = await sender.ask({ type: 'add', keyPackages: [base64] }, 'welcomes')
  await receiver.ask({ type: 'join', name, welcome: added.base64[0] ?? '' }, 'done')
  return { sender, receiver }
}

interface Run {
  readonly perSecond: number
  readonly sender: number
  readonly receiver: number
}

async function stream({ sender, receiver }: Pair, count: number): Promise<Run> {
  const start = performance.now()
  const [received, sent] = await Promise.all([
    receiver.ask({ type: 'receive', count }, 'done'),
    sender.ask({ type: 'send', count, window: WINDOW }, 'done'),
  ])
  const perSecond = Math.round(count / ((performance.now() - start) / 1000))
  return { perSecond, sender: Math.round(sent.cpu / count), receiver: Math.round(received.cpu / count) }
}

async function roundTrips({ sender, receiver }: Pair): Promise<{ p50: number; p99: number }> {
  await receiver.ask({ type: 'echo' }, 'done')
  const { times } = await sender.ask({ type: 'roundTrips', count: ROUND_TRIPS }, 'times')
  await receiver.ask({ type: 'stopEcho' }, 'done')
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number): number => Number((sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(2))
  return { p50: at(0.5), p99: at(0.99) }
}

const results: Record<string, unknown> = {}
const missed: string[] = []
for (const way of ['quic', 'grpc'] as const) {
  const endpoint =
    way === 'quic' ? `quic://localhost:${server.relay.quicPort}` : `https://localhost:${server.relay.grpcPort}`
  const pairs = {
    typescript: await pair('typescript', endpoint, `bench/${way}/typescript`),
    python: await pair('python', endpoint, `bench/${way}/python`),
  }
  const runs: Record<Language, Run[]> = { typescript: [], python: [] }
  for (const language of ['typescript', 'python'] as const) await stream(pairs[language], MESSAGES / 2)
  // Alternating, so that what else the machine does meets both.
  for (let round = 0; round < ROUNDS; round++) {
    for (const language of ['typescript', 'python'] as const) {
      runs[language].push(await stream(pairs[language], MESSAGES))
    }
  }
  const of = (language: Language, field: keyof Run): number => median(runs[language].map((run) => run[field]))
  for (const language of ['typescript', 'python'] as const) {
    results[`${way} ${language}`] = {
      messagesPerSecond: of(language, 'perSecond'),
      roundTripMs: await roundTrips(pairs[language]),
      cpuMicroseconds: { sender: of(language, 'sender'), receiver: of(language, 'receiver') },
    }
    console.log(way, language, JSON.stringify(results[`${way} ${language}`]))
  }
  const ratio = Number((of('python', 'perSecond') / of('typescript', 'perSecond')).toFixed(2))
  results[`${way} ratio`] = ratio
  console.log(way, `ratio ${ratio} (target ${TARGET})`)
  if (ratio < TARGET) missed.push(way)
  for (const { sender, receiver } of Object.values(pairs)) {
    await sender[Symbol.asyncDispose]()
    await receiver[Symbol.asyncDispose]()
  }
}
writeFileSync(join(import.meta.dirname, 'results/python.json'), `${JSON.stringify(results, null, 2)}\n`)
if (missed.length > 0) process.exitCode = 1
