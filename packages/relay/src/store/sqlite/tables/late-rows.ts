/**
 * Rows that may be written late. After a crash, a channel has its rows as last written and the entries logged since.
 * Values that can be derived from those entries are written later, for many messages at once; a channel loaded before
 * that replays them. Anything else (counts of free and guest messages, bars, accounts) makes a row differ from what a
 * crash leaves, and is written with its entry.
 */
import type { AgentId, Entry } from '../../../ports.ts'
import type { Channel, ChannelFields, Ownership, Sender } from '../../ledger/state.ts'
import { isEqual } from '../../records/entry.ts'

/** The ownership is written as soon as it changes. */
type FixedField = 'number' | 'id' | 'name' | 'createdAt' | keyof Ownership
type PositionField = 'last' | 'base'
type Counts = Omit<ChannelFields, FixedField | PositionField>

/** An object, so that the compiler notices a missing one. */
const COUNTS: Readonly<Record<keyof Counts, true>> = {
  bytes: true,
  lastAt: true,
  oldestAt: true,
  guestDay: true,
  guestCount: true,
  unvouchedBytes: true,
  settled: true,
  firstSlot: true,
  slotAt: true,
  hour: true,
  adds: true,
  commitBytes: true,
  due: true,
}
const COUNT_FIELDS = Object.keys(COUNTS) as readonly (keyof Counts)[]
const SENDER_FIELDS: readonly (keyof Sender)[] = [
  'counter',
  'barred',
  'acted',
  'seen',
  'hour',
  'free',
  'commitBytes',
  'bytes',
  'entries',
]

type State = Pick<ChannelFields, PositionField> & Counts

/** The state of a channel and its senders that a crash would leave, and which rows are behind it. */
export interface Recoverable extends State {
  readonly senders: Map<AgentId, Sender>
  readonly late: { channel: boolean; readonly senders: Set<AgentId> }
}

/** The recoverable state of a channel whose rows have just been read or written. */
export function recoverable(channel: Channel): Recoverable {
  const senders = new Map([...channel.senders].map(([agent, sender]) => [agent, { ...sender }]))
  return { ...stateOf(channel), senders, late: { channel: false, senders: new Set() } }
}

/** The fields of a channel that its row holds and that change. */
export function stateOf(channel: State): State {
  const counts = Object.fromEntries(COUNT_FIELDS.map((field) => [field, channel[field]])) as Counts
  return { last: channel.last, base: channel.base, ...counts }
}

/** Whether all changes to a channel's row can be derived from entries. */
export function isSameState(one: State, other: State): boolean {
  return (
    isSamePosition(one.last, other.last) &&
    isSamePosition(one.base, other.base) &&
    COUNT_FIELDS.every((field) => one[field] === other[field])
  )
}

/** Whether all changes to a sender's row can be derived from entries. */
export function isSameSender(one: Sender, other: Sender): boolean {
  return SENDER_FIELDS.every((field) => one[field] === other[field])
}

function isSamePosition(one: State['last'], other: State['last']): boolean {
  return (
    one === other ||
    (one.index === other.index && one.slot === other.slot && (one.hash === other.hash || isEqual(one.hash, other.hash)))
  )
}

/**
 * Applies an entry's changes to its channel and its sender, as when it was logged. `size` is its size for the limits,
 * `entryMs` how long it is kept.
 */
export function follow(channel: State, sender: Sender, entry: Entry, size: number, entryMs: number): void {
  const { kind, index, hash, slot, at } = entry
  channel.last = { index, hash, slot: kind === 'commit' ? slot + 1 : slot }
  channel.lastAt = at
  channel.bytes += size
  if (channel.oldestAt === undefined) {
    channel.oldestAt = at
    channel.due = Math.min(channel.due ?? Infinity, at + entryMs)
  }
  // The sender's row may be newer than the channel's.
  if (index <= sender.seen) return
  sender.bytes += size
  sender.entries += 1
  sender.seen = index
  if (kind === 'message') sender.counter = entry.counter
}
