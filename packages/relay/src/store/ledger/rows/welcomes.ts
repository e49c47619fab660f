/** The pending Welcomes of an engine. */
import type { AgentId, StoredWelcome, Time } from '../../../ports.ts'
import type { Channel } from '../state.ts'

/** Bytes charged for a Welcome in addition to its content. */
export const WELCOME_OVERHEAD = 500

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

/** Pending Welcomes and the GroupInfos they share. */
export interface WelcomeRows {
  /** With the GroupInfo it shares. */
  get(sequence: number): StoredWelcome
  /** Assigns the next sequence number. Replaces the Welcome pending for this agent in this channel. */
  put(channel: Channel, welcome: NewWelcome, at: Time): void
  /** Returns the deleted Welcome; undefined if there was none. */
  drop(channel: Channel, agent: AgentId): DroppedWelcome | undefined
  /** Stores the GroupInfo shared by the Welcomes of the commit at an index. */
  putGroupInfo(channel: Channel, index: number, groupInfo: Uint8Array): void
  /** Deletes it unless a pending Welcome shares it. Returns its size, or 0 if it is kept. */
  dropGroupInfo(channel: Channel, index: number): number
  /** Number of Welcomes pending for an agent in other channels of the same account. */
  count(channel: Channel, agent: AgentId): number
  /** The Welcomes pending for an agent: sequence numbers after `after`, in order, and their sizes as delivered. */
  of(agent: AgentId, after: number): Iterable<{ readonly sequence: number; readonly size: number }>
}
