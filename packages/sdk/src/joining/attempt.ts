/** A join by token that is in progress. */
import { StaticError } from '@static/protocol'
import type { AgentContext } from '../agent/context.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AttemptRecord, Time } from '../ports/index.ts'
import type { InviteKeys } from '../admitting/keys.ts'

/** The application is notified of a request that is deferred for this long. */
export const REPORTED_WAIT_MS = 2000

/** How long a joiner waits for a Welcome when its invite has expired, or when it was removed to be added again. */
export const LATE_WELCOME_MS = 5000

/** How long the relay keeps a Welcome: it refuses a joiner without one if the invite has expired. */
const WELCOME_MS = 7 * 24 * 60 * 60 * 1000

/** How often a Welcome that cannot be used for the moment is tried again in one session, or a spoilt request replaced. */
export const MOST_ENTRIES = 16
const FIRST_ENTRY_MS = 5000
const LONGEST_ENTRY_MS = 600_000

/** What a step may fail with that the next session does not mend: waiting calls get it. */
export const FATAL: ReadonlySet<string> = new Set(['internal_error', 'store_failed', 'channel_exists'])

/** The request of one token. */
export interface Attempt {
  record: AttemptRecord
  readonly keys: InviteKeys
  /** Calls waiting for the result. */
  readonly waiting: Set<PromiseWithResolvers<AgentChannel>>
  /** Hellos sent since the start, and what cancels the next step. */
  hellos: number
  /** Whether a hello is on its way. */
  isGreeting: boolean
  cancel: (() => void) | undefined
  /** How often this agent was kept from entering in this session, and what cancels the next try, if there is one. */
  entries: number
  cancelEntry: (() => void) | undefined
}

/** Until when a Welcome may come: one of a member may wait at the relay. */
export function lastMoment({ admit, expiresAt }: AttemptRecord): Time {
  return admit === 'owner' ? expiresAt : expiresAt + WELCOME_MS
}

/** How long an agent waits before it tries again to enter, after `repeats` times before. */
export function retryEntryMs(repeats: number): number {
  return Math.min(FIRST_ENTRY_MS * 2 ** repeats, LONGEST_ENTRY_MS)
}

/** Waits until a join that was given a time, and so ends at a moment, has succeeded or failed. */
export async function outcomeOf(
  { record, waiting }: Pick<Attempt, 'record' | 'waiting'>,
  timeoutMs: number,
  until: Time,
  context: Pick<AgentContext, 'later' | 'now'>,
): Promise<AgentChannel> {
  const outcome = Promise.withResolvers<AgentChannel>()
  waiting.add(outcome)
  const cancel = context.later(Math.max(0, until - context.now()), () => outcome.reject(noAnswer(record, timeoutMs)))
  try {
    return await outcome.promise
  } finally {
    cancel()
    waiting.delete(outcome)
  }
}

/** No agent that can admit joiners has answered. */
function noAnswer({ admit }: AttemptRecord, timeoutMs: number): StaticError {
  const isOwner = admit === 'owner'
  const who = isOwner ? 'The owner of the channel did not answer' : 'No member of the channel answered'
  const fix = `${isOwner ? 'The owner' : 'One'} must be running with an API key. Then use the same token again.`
  return StaticError.of('join_timeout', `${who} within ${timeoutMs / 1000} seconds. ${fix}`)
}
