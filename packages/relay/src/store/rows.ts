/**
 * What the decisions ask of an engine: records and rows, all at once and without waiting. Whatever is written by an
 * operation becomes durable together with the changed records, or not at all.
 */
import type { Account, AgentId, ChannelId, Entry, Invite, Position, StoredWelcome, Time } from '../ports.ts'
import type { Channel } from './state.ts'

/** What an entry costs beside its body. */
export const ENTRY_OVERHEAD = 200

/** What an entry counts for in the limits of its channel and sender, and on whom. */
export interface Weight {
  readonly index: number
  readonly sender: AgentId
  readonly size: number
  readonly at: Time
}

/** Which message or commit an id belongs to: ids are a sender's own, and apart for both kinds. */
export interface IdKey {
  readonly kind: 'message' | 'commit'
  readonly agent: AgentId
  readonly id: Uint8Array
}

/** The answer that was given under an id. */
export interface Answered {
  readonly index: number
  /** After the entry. */
  readonly head: number
}

/** A channel as it begins. */
export type NewChannel = Pick<Channel, 'id' | 'name' | 'account' | 'owner' | 'guestLimit' | 'last'>

/** Records and rows of one engine. */
export interface Rows {
  // ---- Channels ----

  /** The record itself, not a copy; the same one until the operation is over. */
  channel(id: ChannelId): Channel | undefined
  /** To be called after a change to a channel's records that `changes` names. */
  changed(channel: Channel): void
  named(account: Account, name: string): ChannelId | undefined
  countChannels(account: Account): number
  /** Those whose roster holds the agent. */
  channelsOf(agent: AgentId): ChannelId[]
  addChannel(channel: NewChannel, welcome: Uint8Array): Channel
  /** The Welcome that the channel was founded with. */
  founding(channel: Channel): Uint8Array
  /** With its log, ids, Welcomes and invites. */
  dropChannel(channel: Channel): void
  /** Those with `due` at or before that time, at most so many. */
  dueChannels(now: Time, limit: number): ChannelId[]

  // ---- Log ----

  /** `body` is what the chain covers. */
  addEntry(channel: Channel, entry: Entry, body: Uint8Array): void
  /** The entries with `after` < index ≤ `through`, in order. */
  entries(channel: Channel, after: number, through: number): Iterable<Entry>
  /** What the same entries weigh. */
  weights(channel: Channel, after: number, through: number): Iterable<Weight>
  /** Undefined when that entry is not there (any more). */
  position(channel: Channel, index: number): Position | undefined
  /** Deletes the entries up to and with that index. */
  cut(channel: Channel, through: number): void

  // ---- Ids ----

  /** An id from before `since` counts as forgotten. */
  findId(channel: Channel, key: IdKey, since: Time): Answered | undefined
  /** Keeps the id unless it is known; gives the known answer then. */
  addId(channel: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined
  expireIds(since: Time): void

  // ---- Welcomes and invites ----

  /** Replaces the one that waits for this agent in this channel. */
  putWelcome(channel: Channel, welcome: StoredWelcome, at: Time): void
  dropWelcome(channel: Channel, agent: AgentId): void
  /** Those that wait for an agent, the oldest first. */
  welcomesOf(agent: AgentId): Iterable<StoredWelcome>
  expireWelcomes(since: Time): void
  invite(id: string): Invite | undefined
  putInvite(invite: Invite): void
  countActiveInvites(channel: Channel, now: Time): number
  /** Forgets those that ended before `since`; one that was revoked ends when it is first seen here. */
  expireInvites(now: Time, since: Time): void
}
