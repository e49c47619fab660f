/**
 * How long it takes to fill a channel, and what it costs: guests that join by one token all at once, `addMembers` of
 * many, agents that are added by id one after another, and members and owners that replace their keys. The owner is this process, the relay `static up`, the guests
 * share five processes, so on few cores their work is most of the time: each member follows each commit.
 * `STATIC_BENCH_JOINS=30,100` chooses the sizes; `STATIC_BENCH_PROFILE=1` writes CPU profiles.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { type AgentId, type Channel, StaticChannelManager, StaticClient } from '@static/sdk'
import { startSystem } from './agent/system.ts'
import { cpuMs, median } from './api/processor.ts'
import type { Ask, Told } from './joins/messages.ts'

const SIZES = (process.env['STATIC_BENCH_JOINS'] ?? '30,100,249').split(',').map(Number)
const CROWDS = 5
const ADDED = 240
const BY_ID = 30
/** An agent uploads its KeyPackages some time after it has connected. */
const MOST_TRIES = 100
const TRY_MS = 50
const ROTATIONS = 9

const profile = process.env['STATIC_BENCH_PROFILE'] === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir=bench/results']
using workspace = await makeWorkspace()
await using system = await startSystem(workspace, profile)
const { apiKey, ...connection } = system.connection('quic')
const crowds = Array.from({ length: CROWDS }, (_, at) =>
  fork(
    join(import.meta.dirname, 'joins/crowd.ts'),
    [JSON.stringify({ ...connection, directory: workspace.directory(`crowd-${at}`) })],
    { execArgv: [...profile] },
  ),
)
const ended = new Map(crowds.map((crowd) => [crowd, once(crowd, 'exit')]))
const owner = await StaticChannelManager.connect({
  ...connection,
  apiKey,
  identity: 'owner',
  dataDir: workspace.directory('owner'),
})

/** Asks each process for its part of `count` guests. */
async function askAll(count: number, question: (part: number) => Ask): Promise<readonly Told[]> {
  const part = (at: number): number => Math.floor((count * (at + 1)) / CROWDS) - Math.floor((count * at) / CROWDS)
  return await Promise.all(crowds.map((crowd, at) => ask(crowd, question(part(at)))))
}

async function ask(crowd: ChildProcess, question: Ask): Promise<Told> {
  const answer = once(crowd, 'message')
  crowd.send(question)
  const gone = ended.get(crowd)?.then(() => [{ failure: 'A crowd has ended.' }])
  const [told] = (await Promise.race([answer, gone])) as [Told]
  if (told.failure !== undefined) throw new Error(told.failure)
  return told
}

interface Cost {
  readonly seconds: number
  /** What crossed the loopback interface: all traffic of the system, and that of others on this machine. */
  readonly kibibytes: number
  readonly cpuSeconds: { readonly owner: number; readonly relay: number; readonly crowd: number }
}

/** Bytes that the loopback interface has received since the machine started; 0 where the kernel does not say. */
function loopbackBytes(): number {
  const table = existsSync('/proc/net/dev') ? readFileSync('/proc/net/dev', 'utf8') : ''
  return Number(/^\s*lo:\s*(\d+)/m.exec(table)?.[1] ?? 0)
}

/** How long something takes, what it sends, and the CPU time of all processes meanwhile. */
async function cost(work: () => Promise<unknown>): Promise<Cost> {
  const pids = [process.pid, system.pid, ...crowds.map(({ pid }) => pid ?? 0)]
  const before = pids.map(cpuMs)
  const sentBefore = loopbackBytes()
  const start = performance.now()
  await work()
  const seconds = (performance.now() - start) / 1000
  const kibibytes = Math.round((loopbackBytes() - sentBefore) / 1024)
  const [mine = 0, relay = 0, ...parts] = pids.map((pid, at) => (cpuMs(pid) - (before[at] ?? 0)) / 1000)
  const guests = parts.reduce((sum, part) => sum + part, 0)
  const round = (value: number): number => Number(value.toFixed(2))
  return {
    seconds: round(seconds),
    kibibytes,
    cpuSeconds: { owner: round(mine), relay: round(relay), crowd: round(guests) },
  }
}

/**
 * The time that a guest (whose process follows commits for many others) and the owner take to replace their keys, in
 * turns.
 */
async function rotations(name: string): Promise<object> {
  const [first] = crowds
  if (!first) throw new Error('There are no guests.')
  const [guest, own]: [number[], number[]] = [[], []]
  for (let at = 0; at < ROTATIONS; at++) {
    guest.push((await ask(first, { type: 'rotate', name })).milliseconds)
    const start = performance.now()
    await owner.client.channel(name).rotate()
    own.push(performance.now() - start)
  }
  const figures = (times: number[]): object => ({
    medianMs: Math.round(median(times)),
    mostMs: Math.round(Math.max(...times)),
  })
  return { guest: figures(guest), owner: figures(own), ratio: Number((median(guest) / median(own)).toFixed(1)) }
}

/** Adds an agent as soon as the relay has a KeyPackage of it. Returns when the add that succeeded began. */
async function added(channel: Channel, agentId: AgentId): Promise<number> {
  for (let left = MOST_TRIES; ; left--) {
    const start = performance.now()
    try {
      await channel.addMember(agentId)
      return start
    } catch (error) {
      if (left === 0 || (error as { code?: string }).code !== 'key_package_unavailable') throw error
      await pause(TRY_MS)
    }
  }
}

/** Times from `addMember` with an agent's id until that agent is a member. */
async function addsById(name: string): Promise<object> {
  const channel = await owner.create(name)
  const times: number[] = []
  for (let at = 0; at < BY_ID; at++) {
    const identity = `by-id-${at}`
    const dataDir = workspace.directory(identity)
    await using agent = await StaticClient.connect({ ...connection, apiKey, identity, dataDir })
    const offers = agent.joins()[Symbol.asyncIterator]()
    const start = await added(channel, agent.agentId)
    const { value } = await offers.next()
    if (value === undefined) throw new Error('The agent was closed.')
    await value.accept()
    times.push(performance.now() - start)
  }
  return { medianMs: Math.round(median(times)), leastMs: Math.round(Math.min(...times)) }
}

/** Membership changes in the owner's channels: one for each commit that adds or removes. */
let commits = 0
void (async () => {
  for await (const { type } of owner.client.events()) if (type === 'members_changed') commits++
})()

const results: Record<string, unknown> = {}
function tell(name: string, value: unknown): void {
  results[name] = value
  console.log(name, JSON.stringify(value))
}

await askAll(Math.max(...SIZES, ADDED), (count) => ({ type: 'connect', count }))
tell(
  '11 channels',
  await cost(async () => {
    for (let at = 0; at < 11; at++) await owner.create(`bench/task/${at}`)
  }),
)
for (const count of SIZES) {
  const name = `bench/joins/${count}`
  await owner.create(name)
  const token = await owner.invite(name, { maxUses: count })
  commits = 0
  const spent = await cost(() => askAll(count, (part) => ({ type: 'join', name, token, count: part })))
  tell(`${count} joins`, { ...spent, commits })
  tell(`rotation at ${count + 1} members`, await rotations(name))
}
{
  const channel = await owner.create('bench/joins/added')
  const told = await askAll(ADDED, (count) => ({ type: 'keyPackages', count }))
  const bytes = told.flatMap(({ keyPackages }) => keyPackages).map((text) => Buffer.from(text, 'base64'))
  tell(`addMembers of ${ADDED}`, await cost(() => channel.addMembers(bytes)))
}
tell(`${BY_ID} adds by id`, await addsById('bench/joins/by-id'))
writeFileSync(join(import.meta.dirname, 'results/joins.json'), `${JSON.stringify(results, null, 2)}\n`)
await owner.close()
for (const crowd of crowds) crowd.disconnect()
await Promise.all(ended.values())
