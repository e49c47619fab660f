/** Rows of SQLite as the records that they stand for, and back. */
import { type Mode, leaveBody } from '@static/protocol'
import type { Entry, Invite, Time } from '../ports.ts'
import { readCommitBody, readLeaveBody } from './body.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Channel, Ending, Member, Sender } from './state.ts'

type Bytes = Uint8Array
type Flag = 0 | 1

/** A row of `channels`, without its id. */
export type ChannelRow = readonly [
  number: number,
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

/** A row of `members`, without its channel. */
export type MemberRow = readonly [
  agent: Bytes,
  added: number,
  cursorIndex: number,
  cursorHash: Bytes,
  cursorSlot: number,
  acted: Flag,
  welcome: number | null,
  ...ending: EndingRow,
]

/** A row of `senders`, without its channel. */
export type SenderRow = readonly [
  agent: Bytes,
  counter: number,
  barred: Flag,
  hour: number,
  free: number,
  bytes: number,
  entries: number,
]

/** A row of `entries`, with the index for its key. */
export type EntryRow = readonly [
  index: number,
  kind: number,
  slot: number,
  at: Time,
  counter: number,
  control: Flag,
  sender: Bytes,
  messageId: Bytes,
  hash: Bytes,
  body: Bytes,
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
]

/** How an entry's kind is stored: by its place here. */
export const KINDS = ['message', 'commit', 'leave'] as const

/** The fields of a channel that its own row holds. */
export function readChannel(
  row: ChannelRow,
): Omit<Channel, 'id' | 'members' | 'senders' | 'slots' | 'acked' | 'recent' | 'changes'> {
  const [number, name, account, mode, owner, guestLimit, lastIndex, lastHash, head, ...state] = row
  const [baseIndex, baseHash, baseSlot, bytes, oldestAt, guestDay, guestCount, due] = state
  return {
    number,
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
    due: due ?? undefined,
  }
}

/** A member. */
export function readMember(row: MemberRow): Member {
  const [agent, from, cursorIndex, cursorHash, cursorSlot, acted, welcome, ...ending] = row
  return {
    agent: toHex(agent),
    from,
    cursor: { index: cursorIndex, hash: cursorHash, slot: cursorSlot },
    acted: acted === 1,
    welcome: welcome ?? undefined,
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
export function memberRow({ agent, from, cursor, acted, welcome, ended }: Member): MemberRow {
  return [
    fromHex(agent),
    from,
    cursor.index,
    cursor.hash,
    cursor.slot,
    acted ? 1 : 0,
    welcome ?? null,
    ended?.position.index ?? null,
    ended?.position.hash ?? null,
    ended?.position.slot ?? null,
    ended?.at ?? null,
    ended?.notice ? leaveBody(ended.notice) : null,
    ended?.pending ? 1 : 0,
  ]
}

/** A sender. */
export function readSender([agent, counter, barred, hour, free, bytes, entries]: SenderRow): Sender {
  return { agent: toHex(agent), agentBytes: agent, counter, barred: barred === 1, hour, free, bytes, entries }
}

/** A sender's row. */
export function senderRow({ agentBytes, counter, barred, hour, free, bytes, entries }: Sender): SenderRow {
  return [agentBytes, counter, barred ? 1 : 0, hour, free, bytes, entries]
}

/** An entry. */
export function readEntry(row: EntryRow): Entry {
  const [index, kind, slot, at, counter, control, sender, messageId, hash, body] = row
  const common = { index, hash, slot, sender: toHex(sender), at }
  switch (KINDS[kind]) {
    case 'message':
      return { ...common, kind: 'message', messageId, counter, control: control === 1, ciphertext: body }
    case 'commit':
      return { ...common, kind: 'commit', messageId, ...readCommitBody(body) }
    case 'leave':
      return { ...common, kind: 'leave', notice: readLeaveBody(body) }
    default:
      throw new Error(`entry ${index} is of no known kind`)
  }
}

/** An invite. */
export function readInvite(row: InviteRow): Invite {
  const [id, channel, agent, admissionKey, expiresAt, maxUses, uses, revoked] = row
  return {
    id,
    channel: toHex(channel),
    agent: toHex(agent),
    admissionKey,
    expiresAt,
    maxUses,
    uses,
    revoked: revoked === 1,
  }
}

/** A record as text: for those that are written seldom and never searched. */
export function toJson(record: object): string {
  return JSON.stringify(record, function (this: Record<string, unknown>, key) {
    // Not the second argument: of a Buffer that is what its own toJSON has made.
    const value = this[key]
    if (typeof value === 'bigint') return { $integer: String(value) }
    return value instanceof Uint8Array ? { $bytes: toHex(value) } : value
  })
}

/** The record of a text. */
export function fromJson(text: string): unknown {
  return JSON.parse(text, (_key, value: { $bytes?: string; $integer?: string } | null) => {
    if (typeof value !== 'object' || value === null) return value
    if (value.$bytes !== undefined) return new Uint8Array(fromHex(value.$bytes))
    return value.$integer === undefined ? value : BigInt(value.$integer)
  })
}
