/** One measurement: all agents connect and talk by a schedule, and the traffic at the relay's port is recorded. */
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { TrafficProfileName } from '@static/protocol'
import { found } from '@static/testkit/search'
import { startCapture } from './capture.ts'
import { chanceOf, shuffled } from './chance.ts'
import type { Connection, Seen } from './features.ts'
import { readPackets } from './pcap.ts'
import type { Scene, Way } from './scene.ts'
import type { Phase, Schedule } from './schedule.ts'
import type { Counts } from './talk.ts'

/** How to measure. */
export interface Plan {
  readonly blockMs: number
  readonly blocks: number
  /** `turns`: idle and active in turn, half of the processes first the one and half first the other. */
  readonly talk: 'turns' | 'always' | 'never'
  /** Messages of each agent in active blocks; its peer sends as many. */
  readonly perSecond: number
  readonly longestBytes: number
  readonly seed: number
}

/** The recording. */
export interface Recording {
  readonly schedule: Schedule
  readonly connections: readonly Connection[]
  readonly counts: Counts
  /** Payload bytes per second and connection. */
  readonly bytesPerSecond: { readonly up: number; readonly down: number }
}

/** All messages repeat it, and it must not be in the capture. */
const CANARY = 'the canary that nobody may see '
/** Sent in the clear, and must be in the capture: proves that the search works. */
const MARK = 'a mark in the clear, for all to see'
/** Pause between the order and the first block. */
const LEAD_MS = 500

/** Connects all agents in a profile, and waits until the initial traffic is over. */
export async function settle(scene: Scene, way: Way, traffic: TrafficProfileName, settleMs: number): Promise<void> {
  await scene.connect(() => ({ way, traffic }))
  await wait(settleMs)
}

/** Records while agents that are connected talk by a plan. */
export async function record(scene: Scene, plan: Plan): Promise<Recording> {
  const { blockMs, blocks, perSecond, longestBytes, seed } = plan
  const capture = await startCapture(join(scene.workspace.path, 'capture'), scene.relayPorts, MARK)
  const { ports } = scene
  const phases = phasesOf(scene.size.processes, seed)
  const schedule = { startsAt: Date.now() + LEAD_MS, blockMs, blocks }
  const active = phases.map((phase): Phase[] => {
    if (plan.talk === 'turns') return [phase]
    return plan.talk === 'always' ? [0, 1] : []
  })
  const counts = await scene.play(schedule, active, { perSecond, longestBytes, canary: CANARY, seed })
  const bytes = await capture.stop()
  if (counts.lost > 0 || String(scene.ports) !== String(ports)) throw new Error('Sessions were lost on the way.')
  if (found({ MARK }, bytes).length === 0) throw new Error('The search does not find what is in the capture.')
  if (found({ CANARY }, bytes).length > 0) throw new Error('What was said is in the capture.')
  const connections = connectionsOf(bytes, ports, phases)
  return { schedule, connections, counts, bytesPerSecond: bytesPerSecond(connections, schedule) }
}

/** A random half of the groups begins active. */
function phasesOf(groups: number, seed: number): Phase[] {
  return shuffled(
    Array.from({ length: groups }, (_, at): Phase => (at % 2 === 0 ? 0 : 1)),
    chanceOf(seed),
  )
}

function connectionsOf(bytes: Buffer, ports: readonly (readonly number[])[], phases: readonly Phase[]): Connection[] {
  const byPort = new Map<number, { group: number; phase: Phase; up: Seen[]; down: Seen[] }>()
  for (const [group, own] of ports.entries()) {
    for (const port of own) byPort.set(port, { group, phase: phases[group] ?? 0, up: [], down: [] })
  }
  for (const { time, from, to, length, isRepeat } of readPackets(bytes)) {
    byPort.get(from)?.up.push({ time, length, isRepeat })
    byPort.get(to)?.down.push({ time, length, isRepeat })
  }
  return [...byPort.values()]
}

function bytesPerSecond(
  connections: readonly Connection[],
  { startsAt, blockMs, blocks }: Schedule,
): Recording['bytesPerSecond'] {
  const from = startsAt / 1000
  const seconds = (blocks * blockMs) / 1000
  const rate = (packets: (connection: Connection) => readonly Seen[]): number => {
    const inside = connections.flatMap(packets).filter(({ time }) => time >= from && time < from + seconds)
    return Math.round(inside.reduce((sum, { length }) => sum + length, 0) / seconds / connections.length)
  }
  return { up: rate(({ up }) => up), down: rate(({ down }) => down) }
}
