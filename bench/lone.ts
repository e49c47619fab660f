/**
 * What a lone message costs: one of 1 KiB every 200 ms between two agents, in turns over gRPC and QUIC, beside both
 * native forms of the peer. CPU time of all processes for a message, with the switches of context of each thread. What a
 * system does at rest counts. `--count=N` messages (120 by default); `--only=static` leaves the peer out.
 */
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { makeWorkspace } from '@static/testkit/server/workspace'
import { say } from '../scripts/step.ts'
import { type Group, percentile, stream } from './agent/group.ts'
import { startSystem, type System, WAYS } from './agent/system.ts'
import { costOf, type Cost, processesBelow } from './lone/threads.ts'
import { installNative } from './peers/native/install.ts'
import { startNativePeer } from './peers/native/peer.ts'
import { installSlim } from './peers/slim/install.ts'

const { values: flags } = parseArgs({
  options: { count: { type: 'string', default: '120' }, only: { type: 'string' } },
})
const count = Number(flags.count)
const EVERY_MS = 200
const WARM_UP = { burst: 300, lone: 40 } as const

interface Result {
  readonly messageMs: number
  readonly cpuMs: number
  readonly processes: readonly Cost[]
}

await using started = new AsyncDisposableStack()
const workspace = started.use(await makeWorkspace())
const results: Record<string, Result> = {}
const load = loadavg()[0]

if (flags.only !== 'static') await measurePeers()
const system = started.use(await startSystem(workspace))
for (const way of WAYS) {
  await using group = await system.group(way, `bench/lone/${way}`, 1)
  await measure(`Static, ${way}`, group, namesOf(system))
}
const file = join(import.meta.dirname, 'results/lone.json')
writeFileSync(file, `${JSON.stringify({ node: process.version, load, results }, undefined, 2)}\n`)

async function measurePeers(): Promise<void> {
  const native = await installNative()
  if (!native) return say('SLIM 3.3 could not be installed from PyPI: it is skipped.')
  const shim = (await installSlim()).LD_PRELOAD
  for (const store of [undefined, workspace.directory('slim')]) {
    await using peer = await startNativePeer(workspace, native, store === undefined ? { shim } : { shim, store })
    await using group = await peer.group('lone', 1)
    await measure(`SLIM ${peer.version}, ${store === undefined ? 'no persistence' : 'keys stored'}`, group)
  }
}

function namesOf({ pid }: System): ReadonlyMap<number, string> {
  return new Map([[pid, 'server']])
}

/** Sends lone messages; costs are per message. */
async function measure(name: string, group: Group, names: ReadonlyMap<number, string> = new Map()): Promise<void> {
  await stream(group, WARM_UP.burst)
  await lone(group, WARM_UP.lone)
  const before = processesBelow(process.pid)
  const times = await lone(group, count)
  const processes = costOf(before, processesBelow(process.pid), count, names)
  const cpuMs = Number(processes.reduce((sum, cost) => sum + cost.cpuMs, 0).toFixed(2))
  results[name] = { messageMs: percentile(times, 0.5), cpuMs, processes }
  console.log(`${name}: ${percentile(times, 0.5)} ms a message, ${cpuMs} ms of CPU`)
  for (const { title, cpuMs: spent, threads } of processes) {
    const parts = threads.map((thread) => `${thread.name} ${thread.cpuMs} (${thread.switches})`)
    console.log(`   ${title}: ${spent} ms; threads, with switches of context: ${parts.join(', ')}`)
  }
}

/** Sends one message after the other, with pauses. Returns how long each took. */
async function lone(group: Group, messages: number): Promise<readonly number[]> {
  const times: number[] = []
  for (let at = 0; at < messages; at++) {
    const start = performance.now()
    await stream(group, 1)
    times.push(performance.now() - start)
    await pause(EVERY_MS)
  }
  return times
}
