/**
 * The cost of traffic protection over QUIC and gRPC: bytes and CPU time of an idle agent, the time of a round trip, and
 * the messages per second that cells and cover cost. Everything runs
 * in a network namespace of its own, because bytes are counted by tcpdump.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { TrafficProfileName } from '@static/protocol'
import { ensureCapture } from '../scripts/debian.ts'
import { record, settle } from '../lab/traffic/measure.ts'
import { isInside, obstacle, raiseLoopback, runInside } from '../lab/traffic/network.ts'
import { PROFILES, Scene, type Way, WAYS } from '../lab/traffic/scene.ts'
import { type AgentProcess, startAgent } from './agent/process.ts'
import { median } from './api/processor.ts'

const SIZE = { processes: 4, agents: 2 } as const
const IDLE = { blockMs: 5000, blocks: 4, talk: 'never', perSecond: 1, longestBytes: 1, seed: 1 } as const
/** The time for the ladder to come down. */
const SETTLE_MS: Readonly<Record<TrafficProfileName, number>> = {
  off: 3000,
  standard: 3000,
  private: 25_000,
  strict: 3000,
}
const ROUND_TRIPS: Readonly<Record<TrafficProfileName, number>> = { off: 300, standard: 300, private: 10, strict: 20 }
const MESSAGES = 2000
/** Even. */
const ROUNDS = 8
const WINDOW = 64
/** Loss of messages per second, from `off` to `standard`. */
const MOST_LOST = 0.25

/** The cost of being connected. */
interface IdleCost {
  /** Payload of TCP or UDP, each way. */
  readonly bytesPerSecond: { readonly up: number; readonly down: number }
  readonly megabytesADay: { readonly up: number; readonly down: number }
  /** Share of a core. */
  readonly cpuPercent: { readonly agent: number; readonly relay: number }
}

async function idleCost(scene: Scene, way: Way, profile: TrafficProfileName): Promise<IdleCost> {
  await settle(scene, way, profile, SETTLE_MS[profile])
  const before = { at: performance.now(), ...scene.cpu }
  const { bytesPerSecond } = await record(scene, IDLE)
  const after = { at: performance.now(), ...scene.cpu }
  await scene.close()
  const seconds = (after.at - before.at) / 1000
  const agents = SIZE.processes * SIZE.agents
  const share = (used: number): number => Number(((used / seconds / agents) * 100).toFixed(3))
  const daily = (rate: number): number => Math.round((rate * 86_400) / 1e6)
  return {
    bytesPerSecond,
    megabytesADay: { up: daily(bytesPerSecond.up), down: daily(bytesPerSecond.down) },
    cpuPercent: { agent: share(after.agents - before.agents), relay: share(after.server - before.server) },
  }
}

/** Two agents in a channel, each in a process of its own. */
class Pair implements AsyncDisposable {
  readonly one: AgentProcess
  readonly other: AgentProcess

  private constructor(one: AgentProcess, other: AgentProcess) {
    this.one = one
    this.other = other
  }

  static async start(scene: Scene, way: Way, traffic: TrafficProfileName, purpose: string): Promise<Pair> {
    const name = `${way}-${traffic}-${purpose}`
    const { dataDir = '', ...options } = scene.optionsFor(way)
    const agent = (identity: string): Promise<AgentProcess> =>
      startAgent({ ...options, traffic, identity, dataDir: join(dataDir, identity) })
    const [one, other] = [await agent(`${name}-one`), await agent(`${name}-other`)]
    const channel = `bench/traffic/${name}`
    await one.ask({ type: 'create', name: channel }, 'done')
    const { base64: keyPackage } = await other.ask({ type: 'keyPackage' }, 'bytes')
    const { base64: welcomes } = await one.ask({ type: 'add', keyPackages: [keyPackage] }, 'welcomes')
    await other.ask({ type: 'join', name: channel, welcome: welcomes[0] ?? '' }, 'done')
    return new Pair(one, other)
  }

  async messagesPerSecond(): Promise<number> {
    const start = performance.now()
    await Promise.all([
      this.one.ask({ type: 'send', count: MESSAGES, window: WINDOW }, 'done'),
      this.other.ask({ type: 'receive', count: MESSAGES }, 'done'),
    ])
    return Math.round((MESSAGES * 1000) / (performance.now() - start))
  }

  /** Times in milliseconds, sorted. */
  async roundTrips(count: number): Promise<readonly number[]> {
    await this.other.ask({ type: 'echo' }, 'done')
    const { times } = await this.one.ask({ type: 'roundTrips', count }, 'times')
    await this.other.ask({ type: 'stopEcho' }, 'done')
    return times.toSorted((a, b) => a - b)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.one[Symbol.asyncDispose](), this.other[Symbol.asyncDispose]()])
  }
}

async function roundTripMs(scene: Scene, way: Way, profile: TrafficProfileName): Promise<{ p50: number; p95: number }> {
  await using pair = await Pair.start(scene, way, profile, 'latency')
  if (profile === 'private') await wait(SETTLE_MS.private)
  const times = await pair.roundTrips(ROUND_TRIPS[profile])
  const at = (share: number): number => Number((times[Math.floor(times.length * share)] ?? 0).toFixed(1))
  return { p50: at(0.5), p95: at(0.95) }
}

/** Both profiles in turn, so that other work on the machine affects both. */
async function throughput(scene: Scene, way: Way): Promise<{ off: number; standard: number; lostPercent: number }> {
  await using off = await Pair.start(scene, way, 'off', 'stream')
  await using standard = await Pair.start(scene, way, 'standard', 'stream')
  const rounds: { off: number; standard: number }[] = []
  // Warm up.
  await off.messagesPerSecond()
  await standard.messagesPerSecond()
  for (let round = 0; round < ROUNDS; round += 2) {
    rounds.push({ off: await off.messagesPerSecond(), standard: await standard.messagesPerSecond() })
    rounds.push({ standard: await standard.messagesPerSecond(), off: await off.messagesPerSecond() })
  }
  const lost = median(rounds.map((round) => 1 - round.standard / round.off))
  const of = (profile: 'off' | 'standard'): number => median(rounds.map((round) => round[profile]))
  return { off: of('off'), standard: of('standard'), lostPercent: Number((lost * 100).toFixed(1)) }
}

async function main(): Promise<boolean> {
  raiseLoopback()
  await using scene = await Scene.start(SIZE)
  const results: Record<string, unknown> = {}
  let isMet = true
  for (const way of WAYS) {
    const profiles: Record<string, unknown> = {}
    for (const profile of PROFILES) {
      const idle = await idleCost(scene, way, profile)
      profiles[profile] = { idle, roundTripMs: await roundTripMs(scene, way, profile) }
      console.log(way, profile, JSON.stringify(profiles[profile]))
    }
    const messagesPerSecond = await throughput(scene, way)
    const isFast = messagesPerSecond.lostPercent <= MOST_LOST * 100
    isMet &&= isFast
    console.log(way, 'messages a second', JSON.stringify(messagesPerSecond), isFast ? 'met' : 'missed')
    results[way] = { profiles, messagesPerSecond }
  }
  writeFileSync(join(import.meta.dirname, 'results/traffic-cost.json'), `${JSON.stringify(results, null, 2)}\n`)
  return isMet
}

if (isInside()) {
  process.exitCode = (await main()) ? 0 : 1
} else {
  await ensureCapture('The bench of the traffic')
  const why = obstacle()
  if (why !== undefined) console.error(why)
  process.exitCode = why === undefined ? (runInside(import.meta.filename, 'inherit').status ?? 1) : 1
}
