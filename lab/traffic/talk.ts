/** Messages between the proof and its agents' processes. */
import type { ClientOptions } from '@static/sdk'
import type { Phase, Schedule } from './schedule.ts'

/** The talk in active blocks. */
export interface Talk {
  /** Messages of each agent; its peer sends as many. */
  readonly perSecond: number
  readonly longestBytes: number
  /** Every message repeats it. */
  readonly canary: string
  readonly seed: number
}

/** The proof asks. */
export type Ask =
  /** Makes channels of two agents each. */
  | { readonly type: 'found' }
  | { readonly type: 'connect'; readonly options: ClientOptions }
  /** Answered when the last block is over. */
  | { readonly type: 'play'; readonly schedule: Schedule; readonly phases: readonly Phase[]; readonly talk: Talk }
  | { readonly type: 'close' }

/** A process answers. */
export type Told =
  | { readonly type: 'done'; readonly counts: Counts }
  | { readonly type: 'failed'; readonly message: string }

/** Events since the last `connect`. */
export interface Counts {
  readonly sent: number
  readonly received: number
  /** Lost sessions: their packets do not appear where the proof looks for them. */
  readonly lost: number
}
