/**
 * What the relay knows of a channel beside its log. The decisions change these records in place and note what they have
 * changed; how and when that is written is the engine's business.
 */
import type { LeaveNoticeFields } from '@static/protocol'
import type { Account, AgentId, ChannelId, Position, Time } from '../../ports.ts'

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
  /** Who added it; undefined for the founder, and when it was the owner. */
  readonly adder: AgentId | undefined
  /** Its Welcome was handed in. Until then it has a leaf in the group but is not on the roster. */
  welcomed: boolean
  /** Undefined while it is on the roster. */
  ended: Ending | undefined
  cursor: Position
  /** Where the log begins for the Welcome that waits for it. */
  welcome: number | undefined
}

/** What an agent's acting leaves behind. Outlives its membership: what it holds in the log, a bar, its account. */
export interface Sender {
  readonly agent: AgentId
  /** The agent id as the chain wants it: every message needs it. */
  readonly agentBytes: Uint8Array
  /** The last accepted one since the agent was added. */
  counter: number
  /** From committing. */
  barred: boolean
  /** Has acted here for an account, so it cannot act as a guest any more. */
  acted: boolean
  /** The last index when the agent was last heard of. */
  seen: number
  /** The UTC hour that `free` and `commitBytes` count in. */
  hour: number
  /** Control messages of that hour that cost nothing. */
  free: number
  /** What commits and Welcomes took in that hour: its own, and those of the unconfirmed members that it brought in. */
  commitBytes: number
  /** What of it the log still holds. */
  bytes: number
  entries: number
  /** Not stored. */
  stuck?: Stuck
}

/** What a search for room that failed has found, so that none is made again before anything has changed. */
export interface Stuck {
  /** Where the search began and ended. */
  readonly base: number
  readonly reach: number
  /** What all entries in between hold. */
  readonly found: Holdings
}

/** What some entries hold: all of them, and those of one sender. */
export interface Holdings {
  bytes: number
  entries: number
  ownBytes: number
  ownEntries: number
}

/** How far a full channel may be cut, and its roster, the furthest behind first. */
export interface Lag {
  readonly reach: number
  readonly order: readonly Member[]
}

/** An account that owns channels. */
export interface AccountRecord {
  readonly account: Account
  /** What its channels hold together. Not stored: it is the sum over them. */
  bytes: number
  /** What its plan allows in a channel, and in all of them; undefined: as much as the relay is set to. */
  channelBytes: number | undefined
  accountBytes: number | undefined
  /** When the API said so. */
  toldAt: Time
}

/** A commit that can still be rejected. */
export interface Slot {
  readonly slot: number
  readonly position: Position
  readonly at: Time
  readonly sender: AgentId
  /** How many confirmed members were on the roster before it. */
  readonly rosterSize: number
  /** The channel's `ownerCommit` before it: it tells which members were confirmed. */
  readonly ownerCommit: number
  readonly voters: readonly AgentId[]
  readonly rejected: boolean
}

/** An agent at some time: its membership and the last counter in it. */
export interface Snapshot {
  readonly member: Readonly<Member>
  readonly counter: number
}

/** What an entry did to one agent: a commit that can still be rejected, or a leave among such. */
export interface Turn {
  readonly agent: AgentId
  /** The head before the entry. */
  readonly slot: number
  /** After the entry. */
  readonly position: Position
  readonly at: Time
  readonly removes: boolean
  readonly adds: boolean
  /** Who added the agent, unless it was the owner. */
  readonly adder: AgentId | undefined
  /** Of a leave. */
  readonly notice: LeaveNoticeFields | undefined
  /** Then it has done nothing. */
  readonly rejected: boolean
  /** What the agent was before it, rejected commits left out. */
  readonly before: Snapshot | undefined
}

/** What has changed since a channel was stored. A member or sender that is listed but gone was deleted. */
export interface Changes {
  channel: boolean
  readonly members: Set<AgentId>
  readonly senders: Set<AgentId>
}

/** What is known of a channel as a whole. */
export interface ChannelFields {
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
  /** The index of the owner's last commit: members that others added before it are confirmed. */
  ownerCommit: number
  /** The head at the last reset of the roster: commits below it cannot be rejected any more. */
  settled: number
  /** The lowest slot that is remembered (the head when none is), and when its commit was accepted. */
  firstSlot: number
  slotAt: Time | undefined
  /** The UTC hour that `adds` and `commitBytes` count in. */
  hour: number
  /** Members that others than the owner added. */
  adds: number
  /** What commits and Welcomes took that nobody paid for. */
  commitBytes: number
  /** When a sweep has something to do here. */
  due: Time | undefined
}

/** A channel. */
export interface Channel extends ChannelFields {
  /** Those in the group: the roster, those without a Welcome, and those that have left but were not removed yet. */
  readonly members: Map<AgentId, Member>
  /** Those that are out. Nothing that is done often looks at all of them. */
  readonly former: Map<AgentId, Member>
  readonly senders: Map<AgentId, Sender>
  /** The lowest cursor of the roster. Not stored. */
  acked: number
  /** The lowest cursor of removed members that have not read to their end; undefined: to be looked up. Not stored. */
  awaited: number | undefined
  /** The positions of the last entries, in order. Not stored. */
  readonly recent: Position[]
  /** When the first of the former members ended; undefined: to be looked up. Not stored. */
  firstEnd: Time | undefined
  /** Undefined: to be looked up. Not stored. */
  lag: Lag | undefined
  /** Of entries that are not counted for a share. Not stored. */
  stuck?: Stuck
  readonly changes: Changes
}

/** An account of which nothing is known. */
export function newAccount(account: Account): AccountRecord {
  return { account, bytes: 0, channelBytes: undefined, accountBytes: undefined, toldAt: 0 }
}

/** A channel with nobody in it. */
export function emptyChannel(fields: ChannelFields): Channel {
  return {
    ...fields,
    members: new Map(),
    former: new Map(),
    senders: new Map(),
    acked: fields.last.index,
    awaited: undefined,
    recent: [],
    firstEnd: undefined,
    lag: undefined,
    changes: { channel: false, members: new Set(), senders: new Set() },
  }
}

/** A channel as it begins. */
export function newChannel(
  number: number,
  fields: Pick<Channel, 'id' | 'name' | 'account' | 'owner' | 'guestLimit' | 'last'>,
): Channel {
  return emptyChannel({
    ...fields,
    number,
    base: fields.last,
    bytes: 0,
    oldestAt: undefined,
    guestDay: 0,
    guestCount: 0,
    ownerCommit: 0,
    settled: 0,
    firstSlot: 0,
    slotAt: undefined,
    hour: 0,
    adds: 0,
    commitBytes: 0,
    due: undefined,
  })
}

/** A member or former member. */
export function findMember(channel: Channel, agent: AgentId): Member | undefined {
  return channel.members.get(agent) ?? channel.former.get(agent)
}

/** Puts a member where it belongs, instead of what was known of its agent. */
export function placeMember(channel: Channel, member: Member): void {
  forgetMember(channel, member.agent)
  const { members, former } = channel
  ;(isInGroup(member) ? members : former).set(member.agent, member)
}

/** Forgets a member or former member. */
export function forgetMember(channel: Channel, agent: AgentId): void {
  channel.members.delete(agent)
  channel.former.delete(agent)
  channel.awaited = undefined
  channel.firstEnd = undefined
  channel.lag = undefined
}

/** The current members. */
export function roster(channel: Channel): Member[] {
  return [...channel.members.values()].filter(onRoster)
}

/** Whether a record is one of a current member. */
export function onRoster(member: Member | undefined): member is Member {
  return member !== undefined && member.ended === undefined && member.welcomed
}

/** In the group by a commit's word, but without a Welcome; or removed before there was one. Such an agent sees nothing. */
export function isUnwelcomed({ welcomed }: Member): boolean {
  return !welcomed
}

/** Whether the owner stands behind a membership: it made it, or has committed since. */
export function isConfirmed({ adder, from }: Member, ownerCommit: number): boolean {
  return adder === undefined || ownerCommit > from
}

/** On the roster, not welcomed yet, or left but not yet removed: the group has a leaf for it. */
export function isInGroup(member: Member | undefined): member is Member {
  return member !== undefined && (member.ended === undefined || member.ended.pending)
}

/** Whether a member was removed and has not read to its end. Whoever has left by itself reads no more. */
export function isAwaited({ cursor, ended, welcomed }: Member): boolean {
  return welcomed && ended !== undefined && ended.notice === undefined && cursor.index < ended.position.index
}

/** What lies at or below this nobody waits for, neither on the roster nor among those that were removed. */
export function unawaited(channel: Channel): number {
  if (channel.awaited === undefined) {
    channel.awaited = Infinity
    for (const member of channel.former.values()) {
      if (isAwaited(member)) channel.awaited = Math.min(channel.awaited, member.cursor.index)
    }
  }
  return Math.min(channel.acked, channel.awaited)
}

/** The lowest cursor of the roster. */
export function lowestCursor(channel: Channel): number {
  let lowest = Infinity
  for (const member of channel.members.values()) {
    if (onRoster(member) && member.cursor.index < lowest) lowest = member.cursor.index
  }
  return lowest
}
