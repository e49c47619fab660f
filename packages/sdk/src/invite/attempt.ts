/** A join by token that is in progress. */
import { StaticError } from '@static/protocol'
import type { Membership } from '../core/channel/membership.ts'
import type { AttemptRecord } from '../ports.ts'
import type { InviteKeys } from './keys.ts'

/** The request of one token. */
export interface Attempt {
  record: AttemptRecord
  readonly keys: InviteKeys
  /** Calls waiting for the result. */
  readonly waiting: Set<PromiseWithResolvers<Membership>>
  /** Hellos sent since the start, and what cancels the next step. */
  hellos: number
  cancel: (() => void) | undefined
  /** The hash of a Welcome that came while this agent still left the channel, and is not used. */
  outdated: Uint8Array | undefined
}

/** The Welcome is from an earlier attempt: this agent was removed since and added again. The newer Welcome follows. */
export class Superseded extends Error {}

/** No agent that can admit joiners has answered. */
export function noAnswer({ admit }: AttemptRecord, timeoutMs: number): StaticError {
  const isOwner = admit === 'owner'
  const who = isOwner ? 'The owner of the channel did not answer' : 'No member of the channel answered'
  const fix = `${isOwner ? 'The owner' : 'One'} must be running with an API key. Then use the same token again.`
  return StaticError.of('join_timeout', `${who} within ${timeoutMs / 1000} seconds. ${fix}`)
}
