/**
 * The cost of the relay: 1 KiB messages, durable (SQLite, fsync before the answer), fanned out to 1, 10 and 100 members
 * over QUIC and gRPC. Beside it, in the same run, the floor: the same libraries that send the same bytes back, or write
 * them to as many, and do nothing else. Servers are processes of their own; the measure is their CPU time, all threads.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openAuthority } from '@static/cli/authority'
import { median } from './api/processor.ts'
import { Crowd, Floor, type Kind, wireTo, WIRE_BYTES } from './relay/load.ts'
import { type Server, startProcess } from './relay/process.ts'
import { Agent } from '@static/testkit/agent'

const ROUNDS = 5
const FAN_OUTS = [
  { readers: 1, messages: 8000, window: 64 },
  { readers: 10, messages: 2000, window: 32 },
  { readers: 100, messages: 300, window: 8 },
] as const
const ECHOES = 8000
const ECHO_WINDOW = 64
const LATENCY_SAMPLES = 300
const IDLE_SESSIONS = 200
const TARGETS = { quicMessage: 3, fanOut: 1.7, idleKib: 250 } as const

const directory = mkdtempSync(join(tmpdir(), 'static-bench-'))
const authority = await openAuthority({ directory: join(directory, 'ca'), names: [] })
const { cert, key } = await authority.issue(['localhost'])
const ca = authority.cert
const profile = process.env['STATIC_BENCH_PROFILE'] === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir=bench/results']
await using relay = await startProcess('server', { cert, key, database: join(directory, 'relay.sqlite') }, profile)
await using floor = await startProcess('floor', { cert, key })

interface Cost {
  readonly cpu: number
  readonly perSecond: number
}

/** CPU microseconds of a server, and how often a second, for each of `count` things that a job does. */
async function cost(server: Server, count: number, job: () => Promise<void>): Promise<Cost> {
  const before = await server.use()
  const start = performance.now()
  await job()
  const seconds = (performance.now() - start) / 1000
  return { cpu: ((await server.use()).cpu - before.cpu) / count, perSecond: count / seconds }
}

async function latency(job: () => Promise<void>): Promise<{ p50: number; p99: number }> {
  const times: number[] = []
  for (let at = 0; at < LATENCY_SAMPLES; at++) {
    const start = performance.now()
    await job()
    times.push(performance.now() - start)
  }
  times.sort((a, b) => a - b)
  return { p50: times[Math.floor(times.length / 2)] ?? 0, p99: times[Math.floor(times.length * 0.99)] ?? 0 }
}

/** The floor writes a message to each of its streams, a window of times, and again when all have arrived. */
async function writeLoop(many: Floor, kind: Kind, readers: number, messages: number, window: number): Promise<void> {
  const transport = kind === 'quic' ? 'quic' : 'http2'
  for (let sent = 0; sent < messages; sent += window) {
    const arrived = many.arrival(window * readers * WIRE_BYTES)
    floor.ask({ type: 'write', transport, bytes: WIRE_BYTES, times: window })
    await arrived
  }
}

const results: Record<string, unknown> = {}
const only = process.env['STATIC_BENCH_ONLY']
let named = 0
for (const kind of ['quic', 'grpc'] satisfies Kind[]) {
  if (only !== undefined && !only.startsWith(kind)) continue
  const wire = wireTo(kind, relay.ready, ca)
  const echo = await Floor.open(kind, floor.ready, ca, 1)
  await echo.echo(ECHOES, ECHO_WINDOW)
  for (const { readers, messages, window } of FAN_OUTS) {
    if (only !== undefined && only !== `${kind}${readers}` && only !== kind) continue
    const crowd = await Crowd.gather(wire, relay.token, readers, `bench/${kind}/c${++named}`)
    const many = readers > 1 ? await Floor.open(kind, floor.ready, ca, readers) : undefined
    await crowd.say(messages, window)
    const costs: { relay: Cost; floor: Cost }[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const ours = await cost(relay, messages, () => crowd.say(messages, window))
      const theirs = many
        ? await cost(floor, messages * readers, () => writeLoop(many, kind, readers, messages, window))
        : await cost(floor, ECHOES, () => echo.echo(ECHOES, ECHO_WINDOW))
      costs.push({ relay: ours, floor: theirs })
    }
    const delay = await latency(() => crowd.say(1, 1))
    const floorDelay = many ? undefined : await latency(() => echo.echo(1, 1))
    crowd.close()
    many?.close()
    const perDelivery = readers > 1
    const ratio = median(costs.map(({ relay: r, floor: f }) => (perDelivery ? r.cpu / readers : r.cpu) / f.cpu))
    const cpu = median(costs.map(({ relay: r }) => r.cpu))
    const floorCpu = median(costs.map(({ floor: f }) => f.cpu))
    const perSecond = median(costs.map(({ relay: r }) => r.perSecond))
    results[`${kind}${readers}`] = { cpu, floorCpu, ratio, perSecond, delay, floorDelay, costs }
    console.log(
      `${kind} to ${String(readers).padStart(3)}: ${cpu.toFixed(0)} µs of relay CPU per message` +
        (perDelivery ? ` (${(cpu / readers).toFixed(1)} per delivery)` : '') +
        `, floor ${floorCpu.toFixed(1)}, ${ratio.toFixed(2)}×; ${perSecond.toFixed(0)} messages/s; ` +
        `p50 ${delay.p50.toFixed(2)} ms, p99 ${delay.p99.toFixed(2)} ms` +
        (floorDelay ? ` (floor ${floorDelay.p50.toFixed(2)}, ${floorDelay.p99.toFixed(2)})` : ''),
    )
  }
  echo.close()
  if (only === undefined) {
    const kib = await idleSessions(kind)
    results[`${kind}Idle`] = kib
    console.log(`${kind}: ${kib.toFixed(0)} KiB per idle session`)
  }
}

/** Memory of an idle session, on a relay that has done nothing else. */
async function idleSessions(kind: Kind): Promise<number> {
  const database = join(directory, `idle-${kind}.sqlite`)
  await using fresh = await startProcess('server', { cert, key, database })
  const wire = wireTo(kind, fresh.ready, ca)
  // The first sessions pay for memory that all share.
  const open = async (count: number): Promise<Agent[]> => {
    const agents: Agent[] = []
    for (let at = 0; at < count; at++) agents.push(await Agent.connect(wire, { jwt: fresh.token }))
    return agents
  }
  const agents = await open(IDLE_SESSIONS / 4)
  const before = (await fresh.use()).rss
  agents.push(...(await open(IDLE_SESSIONS)))
  const kib = ((await fresh.use()).rss - before) / 1024 / IDLE_SESSIONS
  for (const agent of agents) agent.close()
  return kib
}

const found = results as Record<string, { ratio: number } & number>
const checks: [string, number | undefined, number][] = [
  ['one message in and one out over QUIC, CPU against a raw echo', found['quic1']?.ratio, TARGETS.quicMessage],
  ['fan-out to 100 over QUIC, CPU per delivery against a raw write loop', found['quic100']?.ratio, TARGETS.fanOut],
  ['fan-out to 100 over gRPC, CPU per delivery against a raw write loop', found['grpc100']?.ratio, TARGETS.fanOut],
  ['KiB per idle session over QUIC', found['quicIdle'], TARGETS.idleKib],
  ['KiB per idle session over gRPC', found['grpcIdle'], TARGETS.idleKib],
]
for (const [what, value, target] of checks) {
  if (value === undefined) continue
  const met = value <= target
  if (!met) process.exitCode = 1
  console.log(`${what}: ${value.toFixed(2)}; target ≤ ${target} ${met ? 'met' : 'MISSED'}`)
}
if (only === undefined) {
  const folder = join(import.meta.dirname, 'results')
  mkdirSync(folder, { recursive: true })
  writeFileSync(
    join(folder, 'relay.json'),
    `${JSON.stringify({ node: process.version, TARGETS, ...results }, null, 2)}\n`,
  )
}
rmSync(directory, { recursive: true, force: true })
