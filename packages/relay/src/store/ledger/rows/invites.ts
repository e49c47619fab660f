/** The invites of an engine. */
import type { ChannelId, Invite, Time } from '../../../ports.ts'
import type { Channel } from '../state.ts'

/** Invites, in the order of their last change. */
export interface InviteRows {
  get(id: string): Invite | undefined
  put(invite: Invite): void
  countActive(channel: Channel, now: Time): number
  /** The ids of a channel's invites that have no uses left. */
  usedUp(channel: ChannelId): readonly string[]
  /** Deletes the invites of a channel that were ended longest ago, until at most `kept` are left. Returns their ids. */
  dropEnded(channel: Channel, now: Time, kept: number): readonly string[]
  /** Deletes all invites of a channel. */
  dropAll(channel: Channel): void
  /** Deletes at most `limit` invites that expired before `since`. */
  expire(since: Time, limit: number): void
}
