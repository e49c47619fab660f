/** The channel records of an engine, and their names. */
import type { Account, AgentId, ChannelId, Head, MemberReceipt } from '../../../ports.ts'
import type { Channel, ChannelFields, Member, Sender } from '../state.ts'

/** The fields of a new channel. */
export type NewChannel = Pick<Channel, 'id' | 'name' | 'createdAt' | 'account' | 'owner' | 'guestLimit' | 'last'>

/** An agent in a channel. */
export interface Glance {
  readonly channel: ChannelFields
  /** Or a former member. */
  readonly member: Member
  readonly sender: Sender | undefined
}

/** Channels with their members and senders. */
export interface ChannelRows {
  /** The record itself, not a copy. It is the same object until `settle` or the end of the operation. */
  get(id: ChannelId): Channel | undefined
  /** One agent in a channel, read-only, without loading the rest of the channel. */
  glance(id: ChannelId, agent: AgentId): Glance | undefined
  /** Where the logs of channels end, without loading the channels. Unknown channels are missing. */
  heads(ids: readonly ChannelId[]): readonly Head[]
  /** The last receipts of at most `limit` members on the roster other than the agent, the furthest first. */
  receipts(id: ChannelId, agent: AgentId, limit: number): readonly MemberReceipt[]
  /** At most `limit` channels whose roster includes the agent, ordered by id, starting after `after`. */
  of(agent: AgentId, after: ChannelId | undefined, limit: number): readonly ChannelId[]
  add(channel: NewChannel, welcome: Uint8Array): Channel
  /** The Welcome that the channel was created with. */
  founding(channel: Channel): Uint8Array
  /** Must be called after a change to a channel's records that `changes` names. */
  changed(channel: Channel): void
}

/** The names of an account's channels. */
export interface NameRows {
  find(account: Account, name: string): ChannelId | undefined
  count(account: Account): number
}
