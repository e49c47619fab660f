/**
 * What the API costs. Every server is a process of its own and the load comes from another; the measure is the
 * server's CPU time per request, as a ratio to a bare fastify handler that returns the same JSON over the same TLS.
 * The API logs at its default level, into a file. Rounds alternate, so that a busy machine hits all alike.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeClient } from '@static/testkit/server/client'
import { makeKey, signUp } from '@static/testkit/server/accounts'
import { startServer } from '@static/testkit/server'
import { HIGH_RATES } from '@static/testkit/server/settings'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { measureFirstUse } from './api/first-use.ts'
import { startBare, startLoad } from './api/helpers.ts'
import { cpuMs, median, residentMib } from './api/processor.ts'
import { measureStartUp } from './api/start-up.ts'

const ROUNDS = 15
/** Enough requests that the kernel's tick of 10 ms is about 1 % of the measured time. */
const REQUESTS = {
  bareOne: 24_000,
  one: 8_000,
  bareFive: 24_000,
  five: 8_000,
  bareTokens: 24_000,
  tokens: 8_000,
} as const
const WARM_UP = 12_000
const CONNECTIONS = 16
const TARGETS = { one: 3, five: 3, tokens: 6 } as const
/** Argon2id keeps its real cost; only limits that a bench must pass are raised. */
const SETTINGS = { rates: HIGH_RATES, keysPerAccount: 1_000 }

const results = join(import.meta.dirname, 'results')
mkdirSync(results, { recursive: true })
using workspace = await makeWorkspace()
await using server = await startServer({
  workspace,
  dataDir: workspace.directory('data'),
  settings: SETTINGS,
  logFile: join(workspace.path, 'api.log'),
  nodeFlags: process.env['STATIC_BENCH_PROFILE'] === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${results}`],
})
using client = makeClient(server.url, workspace.ca)
const firstUse = await measureFirstUse(client)

/** An account with this many keys, and the list that it gets once their first use is recorded. */
async function account(count: number): Promise<{ key: string; list: unknown }> {
  const { key } = (await signUp(client)).api_key
  for (let made = 1; made < count; made++) await makeKey(client, key, { name: `key ${made}` })
  await client.json(200, { path: '/v1/keys', key })
  return { key, list: await client.json(200, { path: '/v1/keys', key }) }
}

const [one, five] = [await account(1), await account(5)]
const token = await client.json(200, { method: 'POST', path: '/v1/tokens', key: one.key })
using bare = await startBare(workspace, { '/one': one.list, '/five': five.list }, { '/v1/tokens': token })
using load = startLoad()

const port = Number(new URL(server.url).port)
const ask = (line: string, key: string, ...more: string[]): string =>
  [`${line} HTTP/1.1`, 'host: 127.0.0.1', `authorization: Bearer ${key}`, ...more, '', ''].join('\r\n')
const post = ask('POST /v1/tokens', one.key, 'content-length: 0')
const targets = {
  bareOne: { pid: bare.pid, port: bare.port, request: ask('GET /one', one.key) },
  one: { pid: server.pid, port, request: ask('GET /v1/keys', one.key) },
  bareFive: { pid: bare.pid, port: bare.port, request: ask('GET /five', five.key) },
  five: { pid: server.pid, port, request: ask('GET /v1/keys', five.key) },
  bareTokens: { pid: bare.pid, port: bare.port, request: post },
  tokens: { pid: server.pid, port, request: post },
}
type Name = keyof typeof REQUESTS
const names = Object.keys(REQUESTS) as Name[]
/** Microseconds of CPU per request, by round. */
const empty = (): Record<Name, number[]> => ({
  bareOne: [],
  one: [],
  bareFive: [],
  five: [],
  bareTokens: [],
  tokens: [],
})
const [costs, speeds] = [empty(), empty()]
const press = (name: Name, count: number): ReturnType<typeof load.press> =>
  load.press({ ...targets[name], count, connections: CONNECTIONS, ca: workspace.ca })
for (const name of names) await press(name, WARM_UP)
for (let round = 0; round < ROUNDS; round++) {
  for (const name of names) {
    const before = cpuMs(targets[name].pid)
    const { answers, seconds } = await press(name, REQUESTS[name])
    costs[name].push(((cpuMs(targets[name].pid) - before) * 1000) / answers)
    speeds[name].push(answers / seconds)
  }
}
const loadedMib = residentMib(server.pid)
await server.end('SIGTERM')
const startUp = await measureStartUp(workspace)

console.log(`CPU of the server, median of ${ROUNDS} rounds, ${CONNECTIONS} connections:`)
for (const name of names) {
  const spread = `${Math.min(...costs[name]).toFixed(0)}–${Math.max(...costs[name]).toFixed(0)}`
  const cost = `${median(costs[name]).toFixed(1).padStart(6)} µs per request (${spread})`
  console.log(`  ${name.padEnd(10)} ${cost}, ${median(speeds[name]).toFixed(0)} requests/s`)
}
/** Ratio of each round to the bare round right before it. */
const ratioTo = (bare: Name, name: Name): number =>
  median(costs[name].map((cost, round) => cost / (costs[bare][round] ?? Number.NaN)))
const ratios = {
  one: ratioTo('bareOne', 'one'),
  five: ratioTo('bareFive', 'five'),
  tokens: ratioTo('bareTokens', 'tokens'),
}
for (const [name, what] of [
  ['one', 'GET /v1/keys, 1 key, SQLite'],
  ['five', 'GET /v1/keys, 5 keys, SQLite'],
  ['tokens', 'POST /v1/tokens'],
] as const) {
  const met = ratios[name] <= TARGETS[name]
  if (!met) process.exitCode = 1
  console.log(`${what}: ${ratios[name].toFixed(2)}× bare fastify; target ≤ ${TARGETS[name]}× ${met ? 'met' : 'MISSED'}`)
}
console.log(`First use of a key, not cached: ${firstUse.latencyMs.toFixed(1)} ms (one at a time, median)`)
console.log(`Argon2 verifies: ${firstUse.perSecond.toFixed(0)}/s (first uses, four at a time)`)
console.log(`static up, second start to ready: ${startUp.readyMs.toFixed(0)} ms`)
console.log(`Memory: ${startUp.restMib.toFixed(0)} MiB at rest, ${loadedMib.toFixed(0)} MiB after the load`)
const record = {
  node: process.version,
  ROUNDS,
  REQUESTS,
  CONNECTIONS,
  costs,
  ratios,
  TARGETS,
  firstUse,
  startUp,
  loadedMib,
}
writeFileSync(join(results, 'api.json'), `${JSON.stringify(record, null, 2)}\n`)
