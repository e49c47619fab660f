/** The actor of a store request, and what all answers have in common. */
import type { ErrorCode, Mode } from '@static/protocol'
import type { AgentId } from './log.ts'

/** The account whose messages are counted. */
export interface Account {
  readonly id: string
  readonly mode: Mode
}

/**
 * An account as the key of a map. It is never stored or sent, but nodes write accounts in the order of these keys, so
 * it must not change between versions.
 */
export function accountKey({ id, mode }: Account): string {
  return `${mode} ${id}`
}

/** The agent that makes a request. Without an account it is a guest. */
export interface Actor {
  readonly agent: AgentId
  readonly account: Account | undefined
}

/** Why the store refused; nothing has changed. */
export interface Refusal {
  readonly refused: ErrorCode
  /** One sentence for people; the default text of the code if missing. */
  readonly message?: string
  /** With `epoch_mismatch`. */
  readonly head?: number
  /** With `out_of_order`. */
  readonly lastCounter?: number
  /** With `queue_full`: some of the members the channel is waiting for. */
  readonly lagging?: readonly Laggard[]
  /** With `rate_limited`: when to retry. */
  readonly retryAfterMs?: number
}

/** A member that is behind. */
export interface Laggard {
  readonly agent: AgentId
  /** Entries that it has not acknowledged. */
  readonly waiting: number
}

/** Success without a result. */
export interface Done {
  readonly done: true
}
