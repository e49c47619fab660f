/** Converts between rows of SQLite and records. */
import { chainNext, fromHex, type Hash, leaveBody, type Mode, toHex } from '@static/protocol'
import type { Entry, Invite, Position, Time } from '../../ports.ts'
import { readCommitBody, readLeaveBody } from '../ledger/entry-body.ts'
import { damaged, intact } from './checksum.ts'
import type { ChannelFields, Ending, Member, Sender } from '../ledger/state.ts'

type Bytes = Uint8Array
type Flag = 0 | 1

/** A row of `channels`, without its number. */
export type ChannelRow = readonly [
  id: Bytes,
  name: string,
  account: string,
  mode: Mode,
  owner: Bytes,
  guestLimit: number,
  lastIndex: number,
  lastHash: Bytes,
  head: number,
  baseIndex: number,
  baseHash: Bytes,
  baseSlot: number,
  bytes: number,
  oldestAt: Time | null,
  guestDay: number,
  guestCount: number,
  ownerCommit: number,
  settled: number,
  firstSlot: number,
  slotAt: Time | null,
  hour: number,
  adds: number,
  commitBytes: number,
  due: Time | null,
]

/** How a membership ended, at the end of its row. */
type EndingRow = readonly [
  endedIndex: number | null,
  endedHash: Bytes | null,
  endedSlot: number | null,
  endedAt: Time | null,
  notice: Bytes | null,
  pending: Flag,
]

/** A row of `members`, without its channel's number. */
export type MemberRow = readonly [
  channelId: Bytes,
  agent: Bytes,
  added: number,
  adder: Bytes | null,
  welcomed: Flag,
  cursorIndex: number,
  cursorHash: Bytes,
  cursorSlot: number,
  receipt: Bytes | null,
  welcome: number | null,
  earlier: number | null,
  ...ending: EndingRow,
]

/** A row of `senders`, without its channel. */
export type SenderRow = readonly [
  agent: Bytes,
  counter: number,
  barred: Flag,
  acted: Flag,
  seen: number,
  hour: number,
  free: number,
  commitBytes: number,
  bytes: number,
  entries: number,
]

/** A row of `entries` without the body, with the index for its key. */
export type HeaderRow = readonly [
  index: number,
  kind: number,
  slot: number,
  at: Time,
  counter: number,
  control: Flag,
  sender: Bytes,
  messageId: Bytes,
  hash: Bytes,
]

/** A row of `invites`. */
export type InviteRow = readonly [
  id: string,
  channel: Bytes,
  agent: Bytes,
  admissionKey: Bytes,
  expiresAt: Time,
  maxUses: number,
  uses: number,
  revoked: Flag,
  members: Flag,
]

/** An entry's kind is stored as its index here. */
export const KINDS = ['message', 'commit', 'leave'] as const

const NOTHING = new Uint8Array()

/** The fields of a channel. */
export function readChannel(number: number, row: ChannelRow): ChannelFields {
  const [id, name, account, mode, owner, guestLimit, lastIndex, lastHash, head, ...state] = row
  const [baseIndex, baseHash, baseSlot, bytes, oldestAt, guestDay, guestCount, ...counts] = state
  const [ownerCommit, settled, firstSlot, slotAt, hour, adds, commitBytes, due] = counts
  return {
    number,
    id: toHex(id),
    name,
    account: { id: account, mode },
    owner: toHex(owner),
    guestLimit,
    last: { index: lastIndex, hash: lastHash, slot: head },
    base: { index: baseIndex, hash: baseHash, slot: baseSlot },
    bytes,
    oldestAt: oldestAt ?? undefined,
    guestDay,
    guestCount,
    ownerCommit,
    settled,
    firstSlot,
    slotAt: slotAt ?? undefined,
    hour,
    adds,
    commitBytes,
    due: due ?? undefined,
  }
}

/** Number of columns of a channel's row that never change. They come first. */
export const FIXED_COLUMNS = 6

/** A channel's row. */
export function channelRow(channel: ChannelFields): ChannelRow {
  const { id, name, account, owner, guestLimit, last, base, bytes, oldestAt, guestDay, guestCount, due } = channel
  const { ownerCommit, settled, firstSlot, slotAt, hour, adds, commitBytes } = channel
  return [
    fromHex(id),
    name,
    account.id,
    account.mode,
    fromHex(owner),
    guestLimit,
    last.index,
    last.hash,
    last.slot,
    base.index,
    base.hash,
    base.slot,
    bytes,
    oldestAt ?? null,
    guestDay,
    guestCount,
    ownerCommit,
    settled,
    firstSlot,
    slotAt ?? null,
    hour,
    adds,
    commitBytes,
    due ?? null,
  ]
}

/** A member. */
export function readMember(row: MemberRow): Member {
  const [, agent, from, adder, welcomed, cursorIndex, cursorHash, cursorSlot, receipt, ...rest] = row
  const [welcome, earlier, ...ending] = rest
  return {
    agent: toHex(agent),
    from,
    adder: adder === null ? undefined : toHex(adder),
    welcomed: welcomed === 1,
    cursor: { index: cursorIndex, hash: cursorHash, slot: cursorSlot },
    receipt: receipt ?? undefined,
    welcome: welcome ?? undefined,
    earlier: earlier ?? undefined,
    ended: readEnding(ending),
  }
}

function readEnding([index, hash, slot, at, notice, pending]: EndingRow): Ending | undefined {
  if (index === null || hash === null || slot === null || at === null) return undefined
  return {
    position: { index, hash, slot },
    at,
    notice: notice === null ? undefined : readLeaveBody(notice),
    pending: pending === 1,
  }
}

/** A member's row. */
export function memberRow(channelId: string, member: Member): MemberRow {
  const { agent, from, adder, welcomed, cursor, receipt, welcome, earlier, ended } = member
  return [
    fromHex(channelId),
    fromHex(agent),
    from,
    adder === undefined ? null : fromHex(adder),
    welcomed ? 1 : 0,
    cursor.index,
    cursor.hash,
    cursor.slot,
    receipt ?? null,
    welcome ?? null,
    earlier ?? null,
    ended?.position.index ?? null,
    ended?.position.hash ?? null,
    ended?.position.slot ?? null,
    ended?.at ?? null,
    ended?.notice ? leaveBody(ended.notice) : null,
    ended?.pending ? 1 : 0,
  ]
}

/** A sender. */
export function readSender(row: SenderRow): Sender {
  const [agent, counter, barred, acted, seen, hour, free, commitBytes, bytes, entries] = row
  const flags = { barred: barred === 1, acted: acted === 1 }
  return { agent: toHex(agent), agentBytes: agent, counter, ...flags, seen, hour, free, commitBytes, bytes, entries }
}

/** A sender's row. */
export function senderRow(sender: Sender): SenderRow {
  const { agentBytes, counter, barred, acted, seen, hour, free, commitBytes, bytes, entries } = sender
  return [agentBytes, counter, barred ? 1 : 0, acted ? 1 : 0, seen, hour, free, commitBytes, bytes, entries]
}

/** The header of an entry's row. */
export function headerRow(entry: Entry, sender: Bytes): HeaderRow {
  const message = entry.kind === 'message'
  return [
    entry.index,
    KINDS.indexOf(entry.kind),
    entry.slot,
    entry.at,
    message ? entry.counter : 0,
    message && entry.control ? 1 : 0,
    sender,
    entry.kind === 'leave' ? NOTHING : entry.messageId,
    entry.hash,
  ]
}

/** The log position after an entry, from the header of its row, with its checksum. */
export function readPosition(row: unknown, index: number): Position {
  const [at, kind, slot, , , , , , hash] = intact(row, `entry ${index}`) as HeaderRow
  if (at !== index) throw damaged(`entry ${index}`)
  return { index, hash, slot: KINDS[kind] === 'commit' ? slot + 1 : slot }
}

/** The entry after a position, from its row. */
export interface ReadEntry {
  readonly entry: Entry
  /** After the entry. */
  readonly position: Position
  /** The length of its body. */
  readonly size: number
}

/** Reads the entry after a position. Throws if the hash chain does not match. */
export function readEntry(hash: Hash, previous: Position, row: unknown): ReadEntry {
  const header = [...(row as readonly (number | Bytes)[])]
  const body = header.pop() as Bytes
  const expected = previous.index + 1
  const position = readPosition(header, expected)
  const [index, kind, slot, at, counter, control, sender, messageId] = header as unknown as HeaderRow
  const name = KINDS[kind]
  if (name === undefined || slot !== previous.slot) throw damaged(`entry ${expected}`)
  const link = chainNext(hash, previous.hash, { kind: name, sender, messageId, bodyHash: hash(body) })
  if (!isEqual(link, position.hash)) throw damaged(`entry ${expected}`)
  const common = { index, hash: position.hash, slot, sender: toHex(sender), at }
  const content = (): Entry => {
    if (name === 'commit') return { ...common, kind: name, messageId, ...readCommitBody(body) }
    if (name === 'leave') return { ...common, kind: name, notice: readLeaveBody(body) }
    return { ...common, kind: name, messageId, counter, control: control === 1, ciphertext: body }
  }
  return { entry: content(), position, size: body.length }
}

/** Whether two hashes are equal. */
export function isEqual(one: Bytes, other: Bytes): boolean {
  return Buffer.compare(one, other) === 0
}

/** An invite. */
export function readInvite(row: InviteRow): Invite {
  const [id, channel, agent, admissionKey, expiresAt, maxUses, uses, revoked, members] = row
  return {
    id,
    channel: toHex(channel),
    agent: toHex(agent),
    admissionKey,
    expiresAt,
    maxUses,
    uses,
    revoked: revoked === 1,
    members: members === 1,
  }
}

/** An invite's row. */
export function inviteRow(invite: Invite): InviteRow {
  const { id, channel, agent, admissionKey, expiresAt, maxUses, uses, revoked, members } = invite
  const flags = [revoked ? 1 : 0, members ? 1 : 0] as const
  return [id, fromHex(channel), fromHex(agent), admissionKey, expiresAt, maxUses, uses, ...flags]
}

/** A record as JSON, for records that are seldom written and never searched. */
export function toJson(record: object): string {
  return JSON.stringify(record, function (this: Record<string, unknown>, key) {
    // Not the second argument: for a Buffer that is the result of its own toJSON.
    const value = this[key]
    if (typeof value === 'bigint') return { $integer: String(value) }
    return value instanceof Uint8Array ? { $bytes: toHex(value) } : value
  })
}

/** Parses a record. */
export function fromJson(text: string): unknown {
  return JSON.parse(text, (_key, value: { $bytes?: string; $integer?: string } | null) => {
    if (typeof value !== 'object' || value === null) return value
    if (value.$bytes !== undefined) return new Uint8Array(fromHex(value.$bytes))
    return value.$integer === undefined ? value : BigInt(value.$integer)
  })
}
