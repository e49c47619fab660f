/** Processes of idle agents. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { IdleAgents, IdleReport } from './idle-agents.ts'

/** Idle agents that are connected. */
export interface IdleCrowd extends Disposable {
  /** Calls back for every agent that reconnects, with the time. */
  onOpened(call: (at: number) => void): void
}

/**
 * Starts idle agents in some processes, because a client of the QUIC library needs a few megabytes. Resolves when all
 * are connected.
 */
export async function startIdle(options: IdleAgents, processes: number): Promise<IdleCrowd> {
  const children: ChildProcess[] = []
  for (let at = 0; at < processes; at++) {
    const count = Math.floor((options.count * (at + 1)) / processes) - Math.floor((options.count * at) / processes)
    const child = fork(join(import.meta.dirname, 'idle-agents.ts'), [JSON.stringify({ ...options, count })])
    children.push(child)
    const died = once(child, 'exit').then(([code]) => {
      throw new Error(`A process of idle agents ended with code ${String(code)} before its agents were connected.`)
    })
    await Promise.race([once(child, 'message'), died])
    died.catch(() => {})
  }
  return {
    onOpened(call) {
      for (const child of children) {
        child.on('message', (report: IdleReport) => {
          if ('openedAt' in report) call(report.openedAt)
        })
      }
    },
    [Symbol.dispose]: () => {
      for (const child of children) child.disconnect()
    },
  }
}
