/** Places where a test kills the process, to see that nothing is lost there. Nothing happens unless a test asks. */
import { kill, pid } from 'node:process'

/** Where. */
export type FailPoint =
  | 'before_begin'
  | 'after_insert_before_commit'
  | 'after_commit_before_answer'
  | 'in_sweep'
  | 'before_checkpoint'

/** When: as the point is passed for the count-th time. */
export interface FailAt {
  readonly point: FailPoint
  readonly count: number
}

/** To be called at every point; undefined when no test asks for any. */
export function failPoints(failAt: FailAt | undefined): ((point: FailPoint) => void) | undefined {
  if (!failAt) return undefined
  let left = failAt.count
  return (point) => {
    if (point === failAt.point && --left === 0) kill(pid, 'SIGKILL')
  }
}
