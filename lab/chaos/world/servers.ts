/** The servers that agents connect to, as processes that can be killed and restarted, on one node or several. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Target } from './line.ts'

/** The servers. */
export interface Servers extends AsyncDisposable {
  readonly apiUrl: string
  /** The addresses of the relay's nodes, which a restart does not change. */
  readonly targets: readonly Target[]
  /** The processes of these nodes. */
  readonly relayPids: readonly number[]
  /** kill -9 of an API, and off for a while. */
  killApi(ms: number): Promise<void>
  /** Restarts processes that exited by themselves. */
  revive(): Promise<void>
}

/** Short, so that agents soon notice cut lines. */
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
