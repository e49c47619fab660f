/**
 * What the relay knows of a channel beside its log. The decisions change these records in place and note what they have
 * changed; how and when that is written is the engine's business.
 */
import type { LeaveNoticeFields } from '@static/protocol'
import type { Account, AgentId, ChannelId, Position, Time } from '../ports.ts'

/** How a membership ended. */
export interface Ending {
  /** After the entry that ended it: the last one that the agent may see. */
  readonly position: Position
  readonly at: Time
  /** When the agent has left by itself. */
  readonly notice: LeaveNoticeFields | undefined
  /** It has left, but no commit has removed it from the group yet. */
  readonly pending: boolean
}

/** An agent that is, or lately was, on the roster. */
export interface Member {
  readonly agent: AgentId
  /** The index of the entry that added it: it sees what comes after. */
  readonly from: number
  /** Undefined while it is on the roster. */
  ended: Ending | undefined
  cursor: Position
  /** Has acted here for an account, so it cannot act as a guest any more. */
  acted: boolean
  /** Where the log begins for the Welcome that waits for it. */
  welcome: number | undefined
}

/** What an agent's sending leaves behind. Outlives its membership: what it holds in the log, and a bar. */
export interface Sender {
  readonly agent: AgentId
  /** The agent id as the chain wants it: every message needs it. */
  readonly agentBytes: Uint8Array
  /** The last accepted one since the agent was added. */
  counter: number
  /** From committing. */
  barred: boolean
  /** The UTC hour that `free` counts in. */
  hour: number
  /** Control messages of that hour that cost nothing. */
  free: number
  /** What of it the log still holds. */
  bytes: number
  entries: number
  /** A search for room that failed, so that it is not made again before anything has changed. Not stored. */
  stuck?: { readonly base: number; readonly reach: number; readonly size: number }
}

/** What a commit has done to the roster, so that it can be undone. */
export interface Slot {
  readonly slot: number
  readonly position: Position
  readonly at: Time
  readonly sender: AgentId
  readonly adds: readonly AgentId[]
  /** Those it removed, as they were before. */
  readonly removed: readonly { readonly member: Member; readonly counter: number }[]
  /** How many were on the roster before it. */
  readonly rosterSize: number
  voters: readonly AgentId[]
  rejected: boolean
}

/** What has changed since a channel was stored. A member or sender that is listed but gone was deleted. */
export interface Changes {
  channel: boolean
  readonly members: Set<AgentId>
  readonly senders: Set<AgentId>
  readonly slots: Set<number>
}

/** A channel. */
export interface Channel {
  /** Short name inside the engine, never given to another channel. */
  readonly number: number
  readonly id: ChannelId
  readonly name: string
  /** The owner's; its mode is the channel's. */
  readonly account: Account
  readonly owner: AgentId
  readonly guestLimit: number
  /** Of the last entry; its slot is the head. */
  last: Position
  /** Of the last entry that is deleted. */
  base: Position
  /** What the log holds. */
  bytes: number
  /** When the oldest entry of the log was accepted. */
  oldestAt: Time | undefined
  /** The UTC day that `guestCount` counts in. */
  guestDay: number
  guestCount: number
  /** When a sweep has something to do here. */
  due: Time | undefined
  readonly members: Map<AgentId, Member>
  readonly senders: Map<AgentId, Sender>
  /** The last ones, by slot, in order. */
  readonly slots: Map<number, Slot>
  /** The lowest cursor of the roster. Not stored. */
  acked: number
  /** The positions of the last entries, in order. Not stored. */
  readonly recent: Position[]
  readonly changes: Changes
}

/** Nothing has changed. */
export function noChanges(): Changes {
  return { channel: false, members: new Set(), senders: new Set(), slots: new Set() }
}

/** The current members. */
export function roster(channel: Channel): Member[] {
  return [...channel.members.values()].filter(onRoster)
}

/** Whether a record is one of a current member. */
export function onRoster(member: Member | undefined): member is Member {
  return member !== undefined && member.ended === undefined
}

/** The lowest cursor of the roster: what lies at or below it nobody waits for. */
export function lowestCursor(channel: Channel): number {
  let lowest = Infinity
  for (const member of channel.members.values()) {
    if (member.ended === undefined && member.cursor.index < lowest) lowest = member.cursor.index
  }
  return lowest
}
