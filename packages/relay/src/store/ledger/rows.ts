/**
 * What the decisions ask of an engine: records and rows, all at once and without waiting. Whatever is written by an
 * operation becomes durable together with the changed records, or not at all.
 */
import type { Account, AgentId, ChannelId, Entry, Invite, Position, StoredWelcome, Time } from '../../ports.ts'
import type { AccountRecord, Channel, ChannelFields, Member, Sender, Slot, Turn } from './state.ts'

/** What an entry costs beside its body. */
export const ENTRY_OVERHEAD = 200
/** What a Welcome costs beside its bytes. */
export const WELCOME_OVERHEAD = 500

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

/** A Welcome before it has its place. */
export interface NewWelcome extends Omit<StoredWelcome, 'sequence'> {
  /** Whether the GroupInfo of its commit follows it. */
  readonly shares: boolean
}

/** A Welcome that was dropped. */
export interface DroppedWelcome {
  readonly bytes: number
  /** The index of the commit whose GroupInfo followed it. */
  readonly shared: number | undefined
}

/** A channel as it begins. */
export type NewChannel = Pick<Channel, 'id' | 'name' | 'account' | 'owner' | 'guestLimit' | 'last'>

/** An agent in a channel. */
export interface Glance {
  readonly channel: ChannelFields
  /** Or former member. */
  readonly member: Member
  readonly sender: Sender | undefined
}

/** Records and rows of one engine. */
export interface Rows {
  // ---- Channels ----

  /** The record itself, not a copy; the same one until `settle` or the end of the operation. */
  channel(id: ChannelId): Channel | undefined
  /** The records of channels are not used any more: they need not stay in memory. */
  settle(): void
  /** One agent in a channel, to be read only: the rest of the channel is not looked at. */
  glance(id: ChannelId, agent: AgentId): Glance | undefined
  /** To be called after a change to a channel's records that `changes` names. */
  changed(channel: Channel): void
  /** The record itself, not a copy; the same one until `settle` or the end of the operation. */
  account(account: Account): AccountRecord
  /** To be called after a change to what an account may keep. */
  putAllotment(record: AccountRecord): void
  named(account: Account, name: string): ChannelId | undefined
  countChannels(account: Account): number
  /** Those whose roster holds the agent, by id, after one of them, at most so many. */
  channelsOf(agent: AgentId, after: ChannelId | undefined, limit: number): ChannelId[]
  /** Whether there is any such. */
  isMember(agent: AgentId): boolean
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
  /** The entries after a position, up to and with an index, in order. Throws `store_corrupt` at one that is not as it was. */
  entries(channel: Channel, after: Position, through: number): Iterable<Entry>
  /** What the entries with `after` < index ≤ `through` weigh. */
  weights(channel: Channel, after: number, through: number): Iterable<Weight>
  /** Of an entry between the base and the last. Throws `store_corrupt` when it is not there, or not as it was. */
  position(channel: Channel, index: number): Position
  /** Deletes the entries up to and with that index. */
  cut(channel: Channel, through: number): void

  // ---- What can be rejected ----

  slot(channel: Channel, slot: number): Slot | undefined
  putSlot(channel: Channel, slot: Slot): void
  /** Forgets the slots and turns up to and with a slot. */
  dropSlotsThrough(channel: Channel, slot: number): void
  /** The index of the first commit after an index, among those whose slots are remembered. */
  commitAfter(channel: Channel, index: number): number | undefined
  /** What the commit of a slot did. */
  turnsOf(channel: Channel, slot: number): Turn[]
  /** What happened to an agent, from an index on, in order. */
  turnsFrom(channel: Channel, agent: AgentId, index: number): Iterable<Turn>
  putTurn(channel: Channel, turn: Turn): void
  dropTurns(channel: Channel): void

  // ---- Ids ----

  /** An id from before `since` counts as forgotten. */
  findId(channel: Channel, key: IdKey, since: Time): Answered | undefined
  /** Keeps the id unless it is known; gives the known answer then. */
  addId(channel: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined
  expireIds(since: Time): void

  // ---- Welcomes and invites ----

  /** Gives it the next sequence number. Replaces the one that waits for this agent in this channel. */
  putWelcome(channel: Channel, welcome: NewWelcome, at: Time): void
  /** Gives what was there; undefined when there was none. */
  dropWelcome(channel: Channel, agent: AgentId): DroppedWelcome | undefined
  /** Keeps what follows the Welcomes of the commit at an index. */
  putGroupInfo(channel: Channel, index: number, groupInfo: Uint8Array): void
  /** Forgets it unless it follows a Welcome that waits; gives its bytes, or 0 while it stays. */
  dropGroupInfo(channel: Channel, index: number): number
  /** How many of other channels of the same account wait for an agent. */
  countWelcomes(channel: Channel, agent: AgentId): number
  /** The sequence numbers of those that wait for an agent, after one, in order; and how large they are as delivered. */
  welcomesOf(agent: AgentId, after: number): Iterable<{ readonly sequence: number; readonly size: number }>
  /** With what follows it. */
  welcome(sequence: number): StoredWelcome
  /** Those from before `since`, at most so many. */
  oldWelcomes(since: Time, limit: number): { readonly channel: ChannelId; readonly agent: AgentId }[]
  invite(id: string): Invite | undefined
  putInvite(invite: Invite): void
  countActiveInvites(channel: Channel, now: Time): number
  /** Forgets those that ended before `since`; one that was revoked ends when it is first seen here. */
  expireInvites(now: Time, since: Time): void
}
