/** Kills the process at a step of the relay's SQLite engine, to prove that nothing is lost. */
import { kill, pid } from 'node:process'
import type { OpenStore } from '@static/relay'
import { type EngineStep, openSqliteStore } from '@static/relay/internal'

/** When to die: as the step is reached for the count-th time. */
export interface FailAt {
  readonly point: EngineStep
  readonly count: number
}

/** All steps, for tests that iterate over them. */
export const ENGINE_STEPS: readonly EngineStep[] = [
  'before_begin',
  'after_insert_before_commit',
  'after_commit_before_answer',
  'in_sweep',
  'before_checkpoint',
]

/** A store in a file whose process dies at a step. */
export function crashingStore(path: string, failAt: FailAt): OpenStore {
  const worker = { module: new URL('./store-worker.ts', import.meta.url), data: { failAt } }
  return (options, listener) => openSqliteStore({ ...options, path, worker }, listener)
}

/** The hook for the engine: kills the process at the chosen step. */
export function killAt({ point, count }: FailAt): (step: EngineStep) => void {
  let left = count
  return (step) => {
    if (step === point && --left === 0) kill(pid, 'SIGKILL')
  }
}
