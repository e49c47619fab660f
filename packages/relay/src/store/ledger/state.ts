/**
 * A channel's state, except for its log. Operations change these records in place and mark what they changed; the
 * engine decides how and when to write it.
 */
import type { LeaveNoticeFields } from '@static/protocol'
import type { Account, AgentId, ChannelId, MemberReceipt, Position, Time } from '../../ports.ts'

/** How a membership ended. */
export interface Ending {
  /** After the entry that ended it, which is the last one the agent may see. */
  readonly position: Position
  readonly at: Time
  /** Set if the agent left on its own. */
  readonly notice: LeaveNoticeFields | undefined
  /** It has left, but no commit has removed it from the group yet. */
  readonly pending: boolean
}

/** An agent that is, or recently was, on the roster. */
export interface Member {
  readonly agent: AgentId
  /** The index of the entry that added it. It sees only later entries. */
  readonly from: number
  /**
   * The vouched member whose allowance it uses until the owner vouches for it; undefined if the owner brought it in,
   * directly or through members it had not vouched for.
   */
  readonly sponsor: AgentId | undefined
  /** The first slot at which the owner's vouch for it counts; undefined if the owner has not vouched for it. */
  vouched: number | undefined
  /** Whether its Welcome was received. Until then it has a leaf in the group but is not on the roster. */
  welcomed: boolean
  /** Undefined while it is on the roster. */
  ended: Ending | undefined
  cursor: Position
  /** The last receipt that it sent, unread. Kept with the cursor; snapshots of a membership do not include it. */
  receipt?: Uint8Array | undefined
  /** The index at which the log starts for its pending Welcome. */
  welcome: number | undefined
  /**
   * The cursor of an earlier membership that it had not read to its end, until it acknowledges its Welcome. Kept because
   * any member can add an agent again, and the owner can undo that.
   */
  earlier: number | undefined
}

/**
 * Counters and flags of an agent that has acted, such as its share of the log and its bar. They outlive its membership.
 */
export interface Sender {
  readonly agent: AgentId
  /** The agent id as bytes, for the hash chain. Cached because every message needs it. */
  readonly agentBytes: Uint8Array
  /** The last accepted counter since the agent was added. */
  counter: number
  /** Whether the agent is barred from committing. */
  barred: boolean
  /** Whether it has acted here for an account. If so, it can no longer act as a guest. */
  acted: boolean
  /** The channel's last index when the agent last acted. */
  seen: number
  /** The UTC hour that `free` and `commitBytes` apply to. */
  hour: number
  /** Number of free control messages in that hour. */
  free: number
  /** Bytes of commits and Welcomes in that hour: its own, and those of the unvouched members it brought in. */
  commitBytes: number
  /** How much of the log is its own. */
  bytes: number
  entries: number
  /** Not stored. */
  stuck?: Stuck
}

/** How far a search for room got without finding enough. The next one continues there. */
export interface Stuck {
  readonly through: number
  /** The total of all entries from the base on. */
  readonly found: Readonly<Holdings>
}

/** Totals over a range of entries: of all of them, and of those of one sender. */
export interface Holdings {
  bytes: number
  entries: number
  ownBytes: number
  ownEntries: number
}

/** How far a full channel may be cut, apart from commits kept for the owner, and its members, furthest behind first. */
export interface Lag {
  readonly reach: number
  /** The roster. */
  readonly order: readonly Member[]
  /** The members that decide how far. */
  readonly audience: readonly Member[]
  /** The index of the commit kept for the owner, once looked up. */
  kept?: number
}

export interface AccountRecord {
  readonly account: Account
  /**
   * The total size of its channels, including deleted ones until they are purged. Not stored, but computed from them.
   */
  bytes: number
  /** The plan's limits for one channel and for all of them; undefined: the relay's own limits apply. */
  channelBytes: number | undefined
  accountBytes: number | undefined
  /** The plan's limit for the files in all of them. */
  fileBytes: number | undefined
  /** When the API reported these limits. */
  reportedAt: Time
}

/** Who owns a channel and pays for it, and who may take it over. */
export interface Ownership {
  /** The owner's account. Its mode is the channel's mode. */
  account: Account
  owner: AgentId
  /** The member that may make itself the owner. */
  standby: AgentId | undefined
  /** How many messages of guests a day the account pays for. */
  guestLimit: number
  /** The slots of the last commit that set owner or standby, and of the last take-over, of those that were not rejected. */
  ownershipSlot: number | undefined
  takenSlot: number | undefined
}

/** A commit that can still be rejected. */
export interface Slot {
  readonly slot: number
  readonly position: Position
  readonly at: Time
  readonly sender: AgentId
  /** Whether the sender owned the channel then. */
  readonly byOwner: boolean
  /** Of a commit that set owner or standby: what was before. */
  readonly replaced?: Readonly<Ownership> | undefined
  /** Number of members with a vote on it when it was accepted (`electorate`). */
  readonly vouchedSize: number
  readonly voters: readonly AgentId[]
  readonly rejected: boolean
  /** How many uses it counted of each invite for members. */
  readonly uses?: readonly (readonly [invite: string, count: number])[] | undefined
}

/** An agent's membership at some time, and the last counter in it. */
export interface Snapshot {
  readonly member: Readonly<Member>
  readonly counter: number
}

/**
 * The effect of an entry on one agent. The entry is a commit that can still be rejected, or a leave among such commits.
 */
export interface Turn {
  readonly agent: AgentId
  /** The head before the entry. */
  readonly slot: number
  /** After the entry. */
  readonly position: Position
  readonly at: Time
  readonly removes: boolean
  readonly adds: boolean
  /** Of a membership that it begins. */
  readonly sponsor: AgentId | undefined
  readonly vouched: number | undefined
  /** Set for a leave. */
  readonly notice: LeaveNoticeFields | undefined
  /** If true, the entry had no effect. */
  readonly rejected: boolean
  /** The agent's state before it, ignoring rejected commits. */
  readonly before: Snapshot | undefined
  /** The membership that it began, when the commit was rejected. A reset of the roster can bring it back. */
  readonly undone: Snapshot | undefined
}

/** Changes since a channel was last stored. A member or sender that is listed but has no record was deleted. */
export interface Changes {
  channel: boolean
  /** Set if the ownership has changed: the account before. */
  ownedBefore: Account | undefined
  readonly members: Set<AgentId>
  readonly senders: Set<AgentId>
}

/** The fields of the channel itself. */
export interface ChannelFields extends Ownership {
  /** The channel's key inside the engine. Never reused. */
  readonly number: number
  readonly id: ChannelId
  readonly name: string
  readonly createdAt: Time
  /** After the last entry; its slot is the head. */
  last: Position
  /** When the last entry was accepted, or the channel created. */
  lastAt: Time
  /** After the last deleted entry. */
  base: Position
  /** Size of the log, of pending Welcomes, and of the records of commits that can still be rejected. */
  bytes: number
  /** When the oldest entry of the log was accepted. */
  oldestAt: Time | undefined
  /** The UTC day that `guestCount` applies to. */
  guestDay: number
  guestCount: number
  /** The head at the last reset of the roster. Commits below it can no longer be rejected. */
  settled: number
  /** The lowest remembered slot (the head if there is none), and when its commit was accepted. */
  firstSlot: number
  slotAt: Time | undefined
  /** The UTC hour that `adds` and `commitBytes` apply to. */
  hour: number
  /** Number of members added by anyone but the owner. */
  adds: number
  /** Bytes of commits and Welcomes that were free. */
  commitBytes: number
  /** Those of them that unvouched members without a sponsor sent. */
  unvouchedBytes: number
  /** When the sweep next has work in this channel. */
  due: Time | undefined
}

export interface Channel extends ChannelFields {
  /** Everyone in the group: the roster, agents without a Welcome, and agents that left but were not yet removed. */
  readonly members: Map<AgentId, Member>
  /** Former members. No frequent operation iterates over them. */
  readonly former: Map<AgentId, Member>
  readonly senders: Map<AgentId, Sender>
  /** The lowest cursor of the roster. Not stored. */
  acked: number
  /** The lowest cursor of removed members that have not read to their end; undefined: not computed. Not stored. */
  awaited: number | undefined
  /** The positions of the last entries, in order. Not stored. */
  readonly recent: Position[]
  /** When the earliest ended of the former memberships ended; undefined: not computed. Not stored. */
  firstEnd: Time | undefined
  /** Undefined: not computed. Not stored. */
  lag: Lag | undefined
  /** For entries that do not count towards a sender's share. Not stored. */
  stuck?: Stuck
  readonly changes: Changes
}

/** An account without plan limits. */
export function newAccount(account: Account): AccountRecord {
  return { account, bytes: 0, channelBytes: undefined, accountBytes: undefined, fileBytes: undefined, reportedAt: 0 }
}

/** A channel without members. */
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
    changes: { channel: false, ownedBefore: undefined, members: new Set(), senders: new Set() },
  }
}

export function newChannel(
  number: number,
  fields: Pick<Channel, 'id' | 'name' | 'createdAt' | 'account' | 'owner' | 'guestLimit' | 'last'>,
): Channel {
  return emptyChannel({
    ...fields,
    number,
    standby: undefined,
    ownershipSlot: undefined,
    takenSlot: undefined,
    lastAt: fields.createdAt,
    base: fields.last,
    bytes: 0,
    oldestAt: undefined,
    guestDay: 0,
    guestCount: 0,
    settled: 0,
    firstSlot: 0,
    slotAt: undefined,
    hour: 0,
    adds: 0,
    commitBytes: 0,
    unvouchedBytes: 0,
    due: undefined,
  })
}

export function findMember(channel: Channel, agent: AgentId): Member | undefined {
  return channel.members.get(agent) ?? channel.former.get(agent)
}

/** Stores a member among the current or the former ones, replacing any record of its agent. */
export function placeMember(channel: Channel, member: Member): void {
  forgetMember(channel, member.agent)
  const { members, former } = channel
  ;(isInGroup(member) ? members : former).set(member.agent, member)
}

export function forgetMember(channel: Channel, agent: AgentId): void {
  channel.members.delete(agent)
  channel.former.delete(agent)
  channel.awaited = undefined
  channel.firstEnd = undefined
  channel.lag = undefined
}

export function roster(channel: Channel): Member[] {
  return [...channel.members.values()].filter(onRoster)
}

/** The last receipts of at most `limit` current members other than an agent, the furthest first. */
export function receiptsOf({ members }: Channel, agent: AgentId, limit: number): readonly MemberReceipt[] {
  const found: (MemberReceipt & { readonly cursor: number })[] = []
  for (const member of members.values()) {
    if (member.agent === agent || !member.receipt || !onRoster(member)) continue
    found.push({ agent: member.agent, receipt: member.receipt, cursor: member.cursor.index })
  }
  const sorted = found.length > limit ? found.sort((one, other) => other.cursor - one.cursor) : found
  return sorted.slice(0, limit).map(({ agent: of, receipt }) => ({ agent: of, receipt }))
}

/** Whether this is a current member. */
export function onRoster(member: Member | undefined): member is Member {
  return member !== undefined && member.ended === undefined && member.welcomed
}

/** Whether a commit added it without a Welcome, and none followed before it was removed. Such an agent sees nothing. */
export function isUnwelcomed({ welcomed }: Member): boolean {
  return !welcomed
}

/** Whether the owner has vouched for a member. Only such members vote, have an allowance and keep entries in a full channel. */
export function isVouched({ vouched }: Member): boolean {
  return vouched !== undefined
}

/** Whether the owner has vouched for an agent in the group. */
export function isVouchedIn({ members }: Channel, agent: AgentId): boolean {
  const member = members.get(agent)
  return member !== undefined && isVouched(member)
}

/** Whether the group has a leaf for it: it is on the roster, not welcomed yet, or left but not yet removed. */
export function isInGroup(member: Member | undefined): member is Member {
  return member !== undefined && (member.ended === undefined || member.ended.pending)
}

/** Whether a member was removed and has not read to its end. An agent that left on its own does not read on. */
export function isAwaited({ cursor, ended, welcomed }: Member): boolean {
  return welcomed && ended !== undefined && ended.notice === undefined && cursor.index < ended.position.index
}

/** The lowest cursor of an agent's ended memberships that it has not read to their end; undefined if there is none. */
export function awaitedFrom(member: Member): number | undefined {
  return member.earlier ?? (isAwaited(member) ? member.cursor.index : undefined)
}

/** Entries up to this index are no longer needed by any member, current or removed. */
export function unawaited(channel: Channel): number {
  if (channel.awaited === undefined) {
    channel.awaited = Infinity
    for (const member of channel.former.values()) {
      channel.awaited = Math.min(channel.awaited, awaitedFrom(member) ?? Infinity)
    }
  }
  let needed = Math.min(channel.acked, channel.awaited)
  for (const { earlier, from } of channel.members.values()) {
    // Once all entries before `from` have expired, nothing from an earlier membership is left.
    if (earlier !== undefined && channel.base.index < from) needed = Math.min(needed, earlier)
  }
  return needed
}

/** The lowest cursor of the roster. */
export function lowestCursor(channel: Channel): number {
  let lowest = Infinity
  for (const member of channel.members.values()) {
    if (onRoster(member) && member.cursor.index < lowest) lowest = member.cursor.index
  }
  return lowest
}
