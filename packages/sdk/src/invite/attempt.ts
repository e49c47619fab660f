/** A join by token that is in progress. */
import { StaticError } from '@static/protocol'
import type { Membership } from '../core/channel/membership.ts'
import type { AttemptRecord, Time } from '../ports.ts'
import type { InviteKeys } from './keys.ts'

/** The application is notified of a request that is deferred for this long. */
export const REPORTED_WAIT_MS = 2000

/** How long after its invite has expired a joiner waits for a Welcome that was made before. */
export const LATE_WELCOME_MS = 5000

/** How long the relay keeps a Welcome: it refuses a joiner without one if the invite has expired. */
const WELCOME_MS = 7 * 24 * 60 * 60 * 1000

/** The request of one token. */
export interface Attempt {
  record: AttemptRecord
  readonly keys: InviteKeys
  /** Calls waiting for the result. */
  readonly waiting: Set<PromiseWithResolvers<Membership>>
  /** Hellos sent since the start, and what cancels the next step. */
  hellos: number
  cancel: (() => void) | undefined
}

/** The Welcome is from an earlier attempt: this agent was removed since and added again. The newer Welcome follows. */
export class Superseded extends Error {}

/** Until when a Welcome may come: one of a member may wait at the relay. */
export function lastMoment({ admit, expiresAt }: AttemptRecord): Time {
  return admit === 'owner' ? expiresAt : expiresAt + WELCOME_MS
}

/** No agent that can admit joiners has answered. */
export function noAnswer({ admit }: AttemptRecord, timeoutMs: number): StaticError {
  const isOwner = admit === 'owner'
  const who = isOwner ? 'The owner of the channel did not answer' : 'No member of the channel answered'
  const fix = `${isOwner ? 'The owner' : 'One'} must be running with an API key. Then use the same token again.`
  return StaticError.of('join_timeout', `${who} within ${timeoutMs / 1000} seconds. ${fix}`)
}
