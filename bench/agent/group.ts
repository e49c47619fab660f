/** A sender and its receivers, and measurements on them. */
import type { AgentProcess } from './process.ts'

/** Messages in flight at once. */
const WINDOW = 64

/** Processes in one channel. */
export interface Group extends AsyncDisposable {
  readonly sender: AgentProcess
  readonly receivers: readonly AgentProcess[]
}

/** Speed, and CPU microseconds per message. */
export interface Run {
  readonly perSecond: number
  readonly sender: number
  readonly receiver: number
}

/** Brings all into a new channel of the owner. */
export async function joinAll(owner: AgentProcess, others: readonly AgentProcess[], name: string): Promise<void> {
  await owner.ask({ type: 'create', name }, 'done')
  const keyPackages: string[] = []
  for (const other of others) keyPackages.push((await other.ask({ type: 'keyPackage' }, 'bytes')).base64)
  const { base64 } = await owner.ask({ type: 'add', keyPackages }, 'welcomes')
  for (const [at, other] of others.entries()) {
    await other.ask({ type: 'join', name, welcome: base64[at] ?? '' }, 'done')
  }
}

/** Sends this many messages to the receivers; ends when all are acknowledged and received. */
export async function stream({ sender, receivers }: Group, count: number): Promise<Run> {
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
    receiver: Math.round(received.reduce((sum, { cpu }) => sum + cpu, 0) / count / receivers.length),
  }
}

/** This many round trips, one after the other, in milliseconds. The receiver leaves at the end. */
export async function roundTrips({ sender, receivers: [echo] }: Group, count: number): Promise<readonly number[]> {
  await echo?.ask({ type: 'echo' }, 'done')
  const { times } = await sender.ask({ type: 'roundTrips', count }, 'times')
  await echo?.ask({ type: 'stopEcho' }, 'done')
  return times
}

/** The time that this share of the round trips does not exceed. */
export function percentile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return Number((sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(2))
}
