/** What agents connect to, as processes that can be killed and started again: on one node, or on several. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Target } from './line.ts'

/** The servers. */
export interface Servers extends AsyncDisposable {
  readonly apiUrl: string
  /** Where the nodes of the relay listen, also after a restart. */
  readonly targets: readonly Target[]
  /** The processes of these nodes. */
  readonly relayPids: readonly number[]
  /** kill -9 of an API, and off for a while. */
  killApi(ms: number): Promise<void>
  /** Starts again what has ended by itself. */
  revive(): Promise<void>
}

/** Short, so that agents notice soon what was cut. */
export const RELAY_SETTINGS: object = { session: { pingMs: 1000, pongMs: 1000 } }

/** Whether a process runs. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Stops a process for a while. */
export async function freeze(pid: number, ms: number): Promise<void> {
  process.kill(pid, 'SIGSTOP')
  await delay(ms)
  process.kill(pid, 'SIGCONT')
}
