/**
 * Files beside a bare program that moves the same bytes by HTTPS with the same cipher and hash, in turns: uploads, one
 * receiver and ten, without the cap on the bytes of a node; CPU of the servers; memory of all processes; and messages
 * while 32 MiB a second pass. `--mib=N` bytes of a file (64 by default), `--rounds=N`.
 */
import { createWriteStream, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { quietPort } from '@static/testkit/ports'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { type Group, percentile } from './agent/group.ts'
import { type AgentProcess, startChild } from './agent/process.ts'
import { startSystem } from './agent/system.ts'
import { median } from './api/processor.ts'
import { cpuOf, memoryOf, peakOf } from './files/process.ts'
import { type BareOptions, PART_BYTES } from './files/transfer.ts'

const { values: flags } = parseArgs({
  options: { mib: { type: 'string', default: '64' }, rounds: { type: 'string', default: '5' } },
})
const mib = Number(flags.mib)
const rounds = Number(flags.rounds)
const RECEIVERS = 10
/** Not held back. */
const FREELY = 100_000 * PART_BYTES
const STEADY_PER_SECOND = 32 * PART_BYTES
const STEADY_MIB = 128
const TRIPS = 25
const WARM_UP = 20
const TARGETS = { speed: 0.7, cpu: 2, p95: 1.2, memoryMib: 32 } as const

interface Server {
  readonly pid: number
}

/** One way to move files: its server, one sender and the receivers. */
interface Way {
  readonly server: Server
  readonly group: Group
}

/** MiB a second, and CPU of the server for one of them. */
interface Moved {
  readonly perSecond: number
  readonly cpuMs: number
}

await using started = new AsyncDisposableStack()
const workspace = started.use(await makeWorkspace())
const load = loadavg()[0]
const scratch = workspace.directory('scratch')
mkdirSync(scratch, { recursive: true })
const path = await sourceOf(mib)
const steadyPath = await sourceOf(STEADY_MIB)

/** How many files have been sent that the receivers have not heard of, and saved. */
let [unheard, saves] = [0, 0]

const ours = await staticWay('free', FREELY, RECEIVERS)
const bare = await bareWay(FREELY, RECEIVERS, mib)
const memory = await measureMemory(ours)
const speeds = await measureSpeeds()
const waits = await measureMessages()

started.defer(() => rmSync(scratch, { recursive: true, force: true }))
const file = join(import.meta.dirname, 'results/files.json')
const results = { load, mib, rounds, memory, speeds, waits }
writeFileSync(file, `${JSON.stringify({ node: process.version, TARGETS, ...results }, undefined, 2)}\n`)

/** A file of random bytes. */
async function sourceOf(size: number): Promise<string> {
  const to = join(scratch, `source-${size}`)
  const out = createWriteStream(to)
  for (let part = 0; part < size; part++) {
    const bytes = Buffer.alloc(PART_BYTES)
    for (let at = 0; at < PART_BYTES; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536))
    if (!out.write(bytes)) await once(out, 'drain')
  }
  out.end()
  await once(out, 'finish')
  return to
}

async function staticWay(name: string, bytesPerSecond: number, receivers: number): Promise<Way> {
  const relay = { filesPort: 0, settings: { files: { bytesPerSecond } } }
  const server = started.use(await startSystem(workspace, [], { name, relay }))
  const group = started.use(await server.group('grpc', `bench/files/${name}`, receivers))
  return { server, group }
}

async function bareWay(bytesPerSecond: number, receivers: number, parts: number): Promise<Way> {
  const port = await quietPort()
  const directory = workspace.directory(`bare-${port}`)
  mkdirSync(directory, { recursive: true })
  const { cert, key, ca } = workspace
  const options: BareOptions = { cert, key, port, directory, bytesPerSecond }
  const child = (name: string, given: object): Promise<AgentProcess> =>
    startChild(join(import.meta.dirname, `files/${name}.ts`), given)
  const server = started.use(await child('bare-server', options))
  const client = async (): Promise<AgentProcess> => started.use(await child('bare-client', { port, ca, parts }))
  const all = await Promise.all(Array.from({ length: receivers + 1 }, client))
  const [sender, ...others] = all
  if (!sender) throw new Error('There is no sender.')
  return { server, group: { sender, receivers: others, [Symbol.asyncDispose]: () => Promise.resolve() } }
}

// ---- Speed ----

async function measureSpeeds(): Promise<object> {
  const jobs = {
    upload: (way: Way) => moved(way, mib, () => send(way, path)),
    'one receiver': (way: Way) => moved(way, mib, () => saveAll(way, 1)),
    'ten receivers': (way: Way) => moved(way, RECEIVERS * mib, () => saveAll(way, RECEIVERS)),
  }
  const measured: Record<string, object> = {}
  for (const [name, job] of Object.entries(jobs)) {
    const found: { ours: Moved; bare: Moved }[] = []
    for (let round = 0; round < rounds; round++) {
      if (name !== 'upload') for (const way of [ours, bare]) await send(way, path)
      await hear(ours)
      // Each goes first as often as the other.
      const order = round % 2 === 0 ? [ours, bare] : [bare, ours]
      const both = new Map<Way, Moved>()
      for (const way of order) both.set(way, await job(way))
      if (name === 'upload') await hear(ours)
      found.push({ ours: both.get(ours)!, bare: both.get(bare)! })
    }
    const speed = median(found.map((each) => each.ours.perSecond / each.bare.perSecond))
    const cpu = median(found.map((each) => each.ours.cpuMs / each.bare.cpuMs))
    const shown = (side: 'ours' | 'bare'): string =>
      `${median(found.map((each) => each[side].perSecond)).toFixed(0)} MiB/s, ` +
      `${median(found.map((each) => each[side].cpuMs)).toFixed(1)} ms of the server's CPU a MiB`
    console.log(`${name}: ${shown('ours')}; bare: ${shown('bare')}`)
    check(`${name}, speed against the bare program`, speed, '≥', TARGETS.speed)
    check(`${name}, CPU of the relay against a plain server`, cpu, '≤', TARGETS.cpu)
    measured[name] = { speed, cpu, found }
  }
  return measured
}

async function moved({ server }: Way, bytes: number, job: () => Promise<unknown>): Promise<Moved> {
  const [start, cpu] = [performance.now(), cpuOf(server.pid)]
  await job()
  const seconds = (performance.now() - start) / 1000
  return { perSecond: bytes / seconds, cpuMs: (cpuOf(server.pid) - cpu) / bytes }
}

async function send(way: Way, from: string): Promise<void> {
  await way.group.sender.ask({ type: 'sendFile', path: from }, 'done')
  if (way === ours) unheard++
}

/** The receivers get the messages of files. */
async function hear({ group }: Way): Promise<void> {
  if (unheard === 0) return
  await Promise.all(group.receivers.map((receiver) => receiver.ask({ type: 'receive', count: unheard }, 'done')))
  unheard = 0
}

async function saveAll({ group }: Way, count: number): Promise<void> {
  const saving = group.receivers.slice(0, count).map((receiver) => {
    const to = join(scratch, `saved-${++saves}`)
    return receiver.ask({ type: 'saveFile', path: to }, 'done')
  })
  await Promise.all(saving)
}

// ---- Memory ----

/** How much more memory each process takes while it moves files, after a small one. */
async function measureMemory(way: Way): Promise<object> {
  const small = await sourceOf(1)
  const {
    sender,
    receivers: [receiver],
  } = way.group
  const processes = { relay: way.server.pid, sender: sender.pid, receiver: receiver?.pid ?? 0 }
  await send(way, small)
  await hear(way)
  await saveAll(way, 1)
  const before = Object.values(processes).map(memoryOf)
  for (let round = 0; round < 2; round++) {
    await send(way, path)
    await hear(way)
    await saveAll(way, 1)
  }
  const more: Record<string, number> = {}
  for (const [at, [name, pid]] of Object.entries(processes).entries()) {
    more[name] = peakOf(pid) - (before[at] ?? 0)
    check(`memory of the ${name}, MiB more than before (${before[at]?.toFixed(0)})`, more[name], '≤', TARGETS.memoryMib)
  }
  return more
}

// ---- Messages ----

/** Round trips of messages while our relay moves files, and while the bare program moves the same beside it. */
async function measureMessages(): Promise<object> {
  const relay = { filesPort: 0, settings: { files: { bytesPerSecond: STEADY_PER_SECOND } } }
  const system = started.use(await startSystem(workspace, [], { name: 'steady', relay }))
  const files = started.use(await system.group('grpc', 'bench/files/steady', 1))
  const talk = started.use(await system.group('grpc', 'bench/files/talk', 1))
  const plain = await bareWay(STEADY_PER_SECOND, 1, STEADY_MIB)
  await talk.receivers[0]?.ask({ type: 'echo' }, 'done')
  const trips = async (): Promise<readonly number[]> =>
    (await talk.sender.ask({ type: 'roundTrips', count: TRIPS }, 'times')).times
  const alone: number[] = []
  // The first ones are slow, until the code is compiled.
  for (let at = 0; at < WARM_UP; at++) await trips()
  for (let at = 0; at < WARM_UP; at++) alone.push(...(await trips()))
  const speeds: number[] = []
  const during = async (job: () => Promise<unknown>): Promise<readonly number[]> => {
    const times: number[] = []
    let isOver = false
    const start = performance.now()
    const moving = job().finally(() => (isOver = true))
    while (!isOver) times.push(...(await trips()))
    await moving
    speeds.push((STEADY_MIB * 1000) / (performance.now() - start))
    return times
  }
  const round = async ({ sender, receivers: [receiver] }: Group): Promise<readonly number[]> => {
    const sending = await during(() => sender.ask({ type: 'sendFile', path: steadyPath }, 'done'))
    if (receiver && sender === files.sender) await receiver.ask({ type: 'receive', count: 1 }, 'done')
    const to = join(scratch, `saved-${++saves}`)
    return [...sending, ...(await during(async () => await receiver?.ask({ type: 'saveFile', path: to }, 'done')))]
  }
  const [mine, theirs]: [number[], number[]] = [[], []]
  for (let at = 0; at < Math.ceil(rounds / 2); at++) {
    mine.push(...(await round(files)))
    theirs.push(...(await round(plain.group)))
  }
  const p95 = { ours: percentile(mine, 0.95), bare: percentile(theirs, 0.95), alone: percentile(alone, 0.95) }
  console.log(
    `messages while files pass at ${median(speeds).toFixed(0)} MiB/s: p95 ${p95.ours} ms, ` +
      `${p95.bare} ms beside the bare program, ${p95.alone} ms without files`,
  )
  const ratio = p95.ours / p95.bare
  check('p95 of messages, against that beside the bare program', ratio, '≤', TARGETS.p95)
  return { ratio, p95, speeds }
}

function check(what: string, value: number, than: '≤' | '≥', target: number): void {
  const isMet = than === '≤' ? value <= target : value >= target
  if (!isMet) process.exitCode = 1
  console.log(`  ${what}: ${value.toFixed(2)}; target ${than} ${target} ${isMet ? 'met' : 'MISSED'}`)
}
