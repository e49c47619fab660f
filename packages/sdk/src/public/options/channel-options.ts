/** Options of a channel's methods, and how they are checked. */
import { StaticError } from '@static/protocol'
import { MOST_LIFETIME_MS } from '../../channel/asking/ask-frame.ts'
import type { SendLimits } from '../../channel/sending/send-wait.ts'
import type { AgentId } from '../../ports/index.ts'
import type { Rule } from '../../proofs/rules.ts'

/** How long a call waits. */
export interface SendOptions {
  /** Ends the wait when it is aborted. */
  readonly signal?: AbortSignal
  /** In seconds. Default: no limit. */
  readonly timeout?: number
}

/** Options of `Channel.catchUp`. */
export interface CatchUpOptions {
  /** Ends the wait when it is aborted. */
  readonly signal?: AbortSignal
}

/** Options of `Channel.history`. */
export interface HistoryOptions {
  /** Only messages before this index: that of the last message of the page before. Default: the newest. */
  readonly before?: number
  /** How many messages a page has, at most 1,000. Default: 100. */
  readonly limit?: number
}

/** Options for adding a member. */
export interface AddOptions {
  /** Accept a key that differs from the one known for this identity. Compare the fingerprint first. */
  readonly acceptNewKey?: boolean
  /**
   * Rules that the member must satisfy (see `InviteOptions.require`); owner only. It is asked for its proof, and removed
   * after 10 minutes without one. Default: the rules of the channel, if it has any.
   */
  readonly require?: string | Rule | readonly (string | Rule)[]
}

/** Options of `Channel.ask`. */
export interface AskOptions {
  /** The member to ask. Default: all members may answer. */
  readonly to?: AgentId
  /** How long to wait for answers, in seconds, at most 604,800 (a week). Default: 300. */
  readonly timeout?: number
  /** Cancels the request when it is aborted. */
  readonly signal?: AbortSignal
}

/** The member that may take a channel over. */
export interface ChannelStandby {
  readonly agentId: AgentId
  /** Whether the owner wants it to: `Channel.takeOver`. */
  readonly offered: boolean
}

/** Options of `Channel.askOne`. */
export interface AskOneOptions extends AskOptions {
  /** The member to ask. */
  readonly to: AgentId
}

const MS = 1000
const ASK_TIMEOUT = 300
const HISTORY_PAGE = 100
const MOST_HISTORY_PAGE = 1000

/** @internal */
export function limitsOf({ signal, timeout }: SendOptions): SendLimits {
  if (timeout === undefined) return { signal }
  if (!(timeout > 0))
    throw StaticError.of('invalid_request', `\`timeout\` is ${timeout}. It must be a number of seconds above 0.`)
  return { signal, timeoutMs: timeout * MS }
}

/** @internal */
export function pageOf({ before, limit = HISTORY_PAGE }: HistoryOptions): {
  before: number | undefined
  limit: number
} {
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > MOST_HISTORY_PAGE)
    throw StaticError.of(
      'invalid_request',
      `\`limit\` is ${limit}. It must be a whole number from 1 to ${MOST_HISTORY_PAGE}.`,
    )
  if (before !== undefined && !(Number.isSafeInteger(before) && before >= 1))
    throw StaticError.of('invalid_request', `\`before\` is ${before}. It must be the index of a message.`)
  return { before, limit }
}

/** @internal */
export function lifetimeOf({ timeout = ASK_TIMEOUT }: AskOptions): number {
  const milliseconds = Math.round(timeout * MS)
  if (milliseconds >= 1 && milliseconds <= MOST_LIFETIME_MS) return milliseconds
  const text = `\`timeout\` is ${timeout}. It must be a number of seconds from 0.001 to ${MOST_LIFETIME_MS / MS}.`
  throw StaticError.of('invalid_request', text)
}
