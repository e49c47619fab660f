/**
 * The interface of a storage engine: records and rows, all accessed synchronously. Everything an operation writes
 * becomes durable together with the changed records, or not at all.
 */
import type { Mode } from '@static/protocol'
import type {
  Account,
  AgentId,
  ChannelId,
  Entry,
  Head,
  MemberReceipt,
  Position,
  StoredWelcome,
  Time,
} from '../../../ports.ts'
import type { InviteRows } from './invites.ts'
import type { AccountRecord, Channel, ChannelFields, Member, Sender, Slot, Turn } from '../state.ts'
import type { TransientRows } from './transient.ts'

/** Bytes charged for an entry in addition to its body. */
export const ENTRY_OVERHEAD = 200
/** Bytes charged for a Welcome in addition to its content. */
export const WELCOME_OVERHEAD = 500
/** Bytes charged for a remembered commit, and for each of its effects on an agent. */
export const SLOT_BYTES = 600
export const TURN_BYTES = 800

/** How much an entry counts towards the limits of its channel and sender. */
export interface Weight {
  readonly index: number
  readonly sender: AgentId
  readonly size: number
  readonly at: Time
}

/** Identifies a message or commit. Ids are scoped to their sender and kind. */
export interface IdKey {
  readonly kind: 'message' | 'commit'
  readonly agent: AgentId
  readonly id: Uint8Array
}

/** The answer given to the request with an id. */
export interface Answered {
  readonly index: number
  /** After the entry. */
  readonly head: number
}

/** A Welcome before it gets its sequence number. */
export interface NewWelcome extends Omit<StoredWelcome, 'sequence'> {
  /** Whether it is delivered with the GroupInfo of its commit. */
  readonly shares: boolean
}

/** A deleted Welcome. */
export interface DroppedWelcome {
  readonly bytes: number
  /** The index of the commit whose GroupInfo it shared. */
  readonly shared: number | undefined
}

/** The fields of a new channel. */
export type NewChannel = Pick<Channel, 'id' | 'name' | 'account' | 'owner' | 'guestLimit' | 'last'>

/** An agent in a channel. */
export interface Glance {
  readonly channel: ChannelFields
  /** Or a former member. */
  readonly member: Member
  readonly sender: Sender | undefined
}

/** The fields of a channel that its owner's account may see. */
export type Owned = Pick<ChannelFields, 'number' | 'id' | 'name' | 'owner'> & {
  readonly mode: Mode
  readonly lastIndex: number
  /** The size of its log. */
  readonly logBytes: number
}

/** The size of a roster, and the cursors of those of it that are furthest behind. */
export interface Behind {
  readonly count: number
  readonly members: readonly { readonly agent: AgentId; readonly cursor: number }[]
}

/** Records and rows of one engine. */
export interface Rows {
  readonly invites: InviteRows
  readonly transient: TransientRows

  // ---- Channels ----

  /** The record itself, not a copy. It is the same object until `settle` or the end of the operation. */
  channel(id: ChannelId): Channel | undefined
  /** Channel records are no longer in use and may be evicted from memory. */
  settle(): void
  /** One agent in a channel, read-only, without loading the rest of the channel. */
  glance(id: ChannelId, agent: AgentId): Glance | undefined
  /** Where the logs of channels end, without loading the channels. Unknown channels are missing. */
  heads(ids: readonly ChannelId[]): readonly Head[]
  /** Must be called after a change to a channel's records that `changes` names. */
  changed(channel: Channel): void
  /** The record itself, not a copy. It is the same object until `settle` or the end of the operation. */
  account(account: Account): AccountRecord
  /** Must be called after a change to an account's limits. */
  putAllotment(record: AccountRecord): void
  named(account: Account, name: string): ChannelId | undefined
  countChannels(account: Account): number
  /** The channels of an account id in both modes: how many, and at most `limit` of them after `skip`, by mode and name. */
  owned(account: string, skip: number, limit: number): { readonly total: number; readonly channels: readonly Owned[] }
  /** The roster of a channel: how many, and at most `limit` of them, the lowest cursors first. */
  furthestBehind(channel: Pick<Owned, 'number' | 'id'>, limit: number): Behind
  /** The last receipts of at most `limit` members on the roster other than the agent, the furthest first. */
  receipts(id: ChannelId, agent: AgentId, limit: number): readonly MemberReceipt[]
  /** At most `limit` channels whose roster includes the agent, ordered by id, starting after `after`. */
  channelsOf(agent: AgentId, after: ChannelId | undefined, limit: number): ChannelId[]
  /** Whether any roster includes the agent. */
  isMember(agent: AgentId): boolean
  addChannel(channel: NewChannel, welcome: Uint8Array): Channel
  /** The Welcome that the channel was created with. */
  founding(channel: Channel): Uint8Array
  /**
   * Also hides its log, ids, Welcomes and invites. Its bytes stay on the account until `purge` has deleted them:
   * otherwise creating and deleting channels would fill the disk faster than it is freed.
   */
  dropChannel(channel: Channel): void
  /** Deletes a limited part of what deleted channels have left, and takes it off their accounts. */
  purge(): void
  /** At most `limit` channels with `due` at or before that time. Must be read to the end, one after the other. */
  dueChannels(now: Time, limit: number): Iterable<ChannelId>

  // ---- Log ----

  /** `body` is what the chain covers. */
  addEntry(channel: Channel, entry: Entry, body: Uint8Array): void
  /** The entries after a position, up to and including an index, in order. Throws `store_corrupt` at a damaged one. */
  entries(channel: Channel, after: Position, through: number): Iterable<Entry>
  /** The weights of the entries with `after` < index ≤ `through`. */
  weights(channel: Channel, after: number, through: number): Iterable<Weight>
  /** The position of an entry between the base and the last. Throws `store_corrupt` if it is missing or damaged. */
  position(channel: Channel, index: number): Position
  /** Deletes the entries up to and including that index. */
  cut(channel: Channel, through: number): void

  // ---- Commits that can still be rejected ----

  slot(channel: Channel, slot: number): Slot | undefined
  putSlot(channel: Channel, slot: Slot): void
  /** Deletes a slot and its turns. Returns how many rows of each there were. */
  dropSlot(channel: Channel, slot: number): { readonly slots: number; readonly turns: number }
  /** The index of the first commit after an index, among the remembered slots. */
  commitAfter(channel: Channel, index: number): number | undefined
  /** The effects of the commit of a slot. */
  turnsOf(channel: Channel, slot: number): Turn[]
  /** The effects on an agent since the last reset of the roster, from an index on, in order. */
  turnsFrom(channel: Channel, agent: AgentId, index: number): Iterable<Turn>
  putTurn(channel: Channel, turn: Turn): void
  /** Deletes the turns of a slot. Returns how many. */
  dropTurns(channel: Channel, slot: number): number

  // ---- Ids ----

  /** An id from before `since` counts as unknown. */
  findId(channel: Channel, key: IdKey, since: Time): Answered | undefined
  /** Stores the id. If it is already known, returns the stored answer instead. */
  addId(channel: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined
  expireIds(since: Time): void

  // ---- Welcomes ----

  /** Assigns the next sequence number. Replaces the Welcome pending for this agent in this channel. */
  putWelcome(channel: Channel, welcome: NewWelcome, at: Time): void
  /** Returns the deleted Welcome; undefined if there was none. */
  dropWelcome(channel: Channel, agent: AgentId): DroppedWelcome | undefined
  /** Stores the GroupInfo shared by the Welcomes of the commit at an index. */
  putGroupInfo(channel: Channel, index: number, groupInfo: Uint8Array): void
  /** Deletes it unless a pending Welcome shares it. Returns its size, or 0 if it is kept. */
  dropGroupInfo(channel: Channel, index: number): number
  /** Number of Welcomes pending for an agent in other channels of the same account. */
  countWelcomes(channel: Channel, agent: AgentId): number
  /** The Welcomes pending for an agent: sequence numbers after `after`, in order, and their sizes as delivered. */
  welcomesOf(agent: AgentId, after: number): Iterable<{ readonly sequence: number; readonly size: number }>
  /** With the GroupInfo it shares. */
  welcome(sequence: number): StoredWelcome
  /** At most `limit` Welcomes from before `since`. */
  oldWelcomes(since: Time, limit: number): readonly { readonly channel: ChannelId; readonly agent: AgentId }[]
}
