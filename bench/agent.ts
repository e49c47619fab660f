/**
 * Two agents and a relay, each in a process of its own and durable on its disk: how long a message takes there and
 * back, how many a second go one way, and what each of the three spends on one. 1 KiB payloads, over QUIC and gRPC.
 * Agents: MLS, SQLCipher with synchronous=FULL. Relay: `static up`, SQLite with synchronous=FULL.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { type Group, percentile, roundTrips, type Run, stream } from './agent/group.ts'
import { startSystem, WAYS } from './agent/system.ts'
import { cpuMs, median } from './api/processor.ts'

const ROUNDS = 3
const MESSAGES = 4000
const ROUND_TRIPS = 500
const FAN_OUT = 10
const FAN_OUT_MESSAGES = 500

const profile = process.env['STATIC_BENCH_PROFILE'] === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir=bench/results']
using workspace = await makeWorkspace()
await using system = await startSystem(workspace, profile)

/** A run, with the CPU microseconds that the relay spent on a message. */
async function measure(group: Group, count: number): Promise<Run & { readonly relay: number }> {
  const before = cpuMs(system.pid)
  const { perSecond, sender, receiver } = await stream(group, count)
  const relay = Math.round(((cpuMs(system.pid) - before) * 1000) / count)
  return { perSecond, sender, relay, receiver }
}

const results: Record<string, unknown> = {}
for (const way of WAYS) {
  {
    await using pair = await system.group(way, `bench/${way}/pair`, 1)
    await stream(pair, MESSAGES / 2)
    const runs: Awaited<ReturnType<typeof measure>>[] = []
    for (let round = 0; round < ROUNDS; round++) runs.push(await measure(pair, MESSAGES))
    const times = await roundTrips(pair, ROUND_TRIPS)
    const of = (field: keyof (typeof runs)[number]): number => median(runs.map((run) => run[field]))
    results[way] = {
      roundTripMs: { p50: percentile(times, 0.5), p99: percentile(times, 0.99) },
      messagesPerSecond: of('perSecond'),
      cpuMicroseconds: { sender: of('sender'), relay: of('relay'), receiver: of('receiver') },
    }
    console.log(way, JSON.stringify(results[way]))
  }
  {
    await using crowd = await system.group(way, `bench/${way}/crowd`, FAN_OUT)
    await stream(crowd, FAN_OUT_MESSAGES / 2)
    const { perSecond, ...cpuMicroseconds } = await measure(crowd, FAN_OUT_MESSAGES)
    results[`${way}FanOut${FAN_OUT}`] = { deliveriesPerSecond: perSecond * FAN_OUT, cpuMicroseconds }
    console.log(way, `fan-out ${FAN_OUT}`, JSON.stringify(results[`${way}FanOut${FAN_OUT}`]))
  }
}
writeFileSync(join(import.meta.dirname, 'results/agent.json'), `${JSON.stringify(results, null, 2)}\n`)
