/**
 * What a crash leaves of a channel: its rows as they were last written, and the entries logged since. What follows from
 * those entries is written later, for many messages at once; a channel that is loaded before that follows them again.
 * Anything else (free and guests' counts, bars, accounts) makes a row differ from what a crash leaves, and is written
 * with its entry.
 */
import type { AgentId, Entry } from '../../../ports.ts'
import type { Channel, Sender } from '../../ledger/state.ts'
import { isEqual } from '../../records/entry.ts'

/** The fields that change, without the positions. */
type ChannelField =
  | 'bytes'
  | 'oldestAt'
  | 'guestDay'
  | 'guestCount'
  | 'unvouchedBytes'
  | 'settled'
  | 'firstSlot'
  | 'slotAt'
  | 'hour'
  | 'adds'
  | 'commitBytes'
  | 'due'

const CHANNEL_FIELDS: readonly ChannelField[] = [
  'bytes',
  'oldestAt',
  'guestDay',
  'guestCount',
  'unvouchedBytes',
  'settled',
  'firstSlot',
  'slotAt',
  'hour',
  'adds',
  'commitBytes',
  'due',
]
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

type State = Pick<Channel, 'last' | 'base' | ChannelField>

/** What a crash leaves of a channel and its senders, and which of their rows are behind it. */
export interface Recoverable extends State {
  readonly senders: Map<AgentId, Sender>
  readonly late: { channel: boolean; readonly senders: Set<AgentId> }
}

/** Of a channel whose rows have just been read or written. */
export function recoverable(channel: Channel): Recoverable {
  const senders = new Map([...channel.senders].map(([agent, sender]) => [agent, { ...sender }]))
  return { ...stateOf(channel), senders, late: { channel: false, senders: new Set() } }
}

/** The fields of a channel that its row holds and that change. */
export function stateOf(channel: State): State {
  const { last, base, bytes, oldestAt, guestDay, guestCount, due } = channel
  const { unvouchedBytes, settled, firstSlot, slotAt, hour, adds, commitBytes } = channel
  const counts = { guestDay, guestCount, unvouchedBytes, settled, firstSlot, slotAt, hour, adds, commitBytes }
  return { last, base, bytes, oldestAt, due, ...counts }
}

/** Whether an entry tells all that has changed in a channel's row. */
export function isSameState(one: State, other: State): boolean {
  return (
    isSamePosition(one.last, other.last) &&
    isSamePosition(one.base, other.base) &&
    CHANNEL_FIELDS.every((field) => one[field] === other[field])
  )
}

/** Whether entries tell all that has changed in a sender's row. */
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
 * What an entry changes in its channel and its sender: the same as when it was logged. `size` is what it counts towards
 * the limits, `entryMs` how long it is kept.
 */
export function follow(channel: State, sender: Sender, entry: Entry, size: number, entryMs: number): void {
  const { kind, index, hash, slot, at } = entry
  channel.last = { index, hash, slot: kind === 'commit' ? slot + 1 : slot }
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
