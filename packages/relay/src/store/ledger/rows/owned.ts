/** What an account may see of its channels, read without loading them. */
import type { Mode } from '@static/protocol'
import type { AgentId } from '../../../ports.ts'
import type { ChannelFields } from '../state.ts'

/** The fields of a channel that its owner's account may see. */
export type Owned = Pick<ChannelFields, 'number' | 'id' | 'name' | 'owner' | 'createdAt' | 'lastAt'> & {
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

/** Channels by account. */
export interface OwnedRows {
  /** The channels of an account id in both modes: how many, and at most `limit` of them after `skip`, by mode and name. */
  list(account: string, skip: number, limit: number): { readonly total: number; readonly channels: readonly Owned[] }
  /** The roster of a channel: how many, and at most `limit` of them, the lowest cursors first. */
  furthestBehind(channel: Pick<Owned, 'number' | 'id'>, limit: number): Behind
}
