/**
 * What the log lets go, and when: what the whole roster has acknowledged, what is too old, and in a full channel what
 * fewer than half of its members still wait for. Former members hold nothing back. Whoever misses something is told of
 * a gap when it reads on.
 */
import type { AgentId, Refusal, Request, Result, Time } from '../ports.ts'
import { type Context, touch, touchMember, touchSender } from './context.ts'
import { positionAt } from './log.ts'
import { type Channel, type Sender, lowestCursor, roster } from './state.ts'

/** One sender holds at most this part of a channel. */
const SENDER_SHARE = 1 / 4
/** What is let go of a full channel beyond need, so that the next message does not meet the same. */
const SLACK = 1 / 16
/** So many entries are worth a deletion at once; fewer wait for the sweep. */
const WORTH_CUTTING = 64
/** What one acknowledgement deletes at most; the sweep does the rest. */
const ACK_BUDGET = 1024
/** What one sweep deletes and looks at, at most: others wait for it. */
const SWEEP_ENTRIES = 4096
const SWEEP_CHANNELS = 256
/** How long an invite is known after its end. */
const ENDED_INVITE_MS = 24 * 3600_000

/** To be called when cursors or the roster have changed: deletes what is worth it, and leaves the rest to the sweep. */
export function letGo(context: Context, channel: Channel): void {
  channel.acked = lowestCursor(channel)
  const held = channel.acked - channel.base.index
  if (held >= WORTH_CUTTING) cut(context, channel, Math.min(channel.acked, channel.base.index + ACK_BUDGET))
  schedule(context, channel)
}

/** Deletes the entries up to an index; gives their number. */
export function cut(context: Context, channel: Channel, through: number): number {
  const { rows } = context
  const { base, last } = channel
  if (through <= base.index) return 0
  const position = positionAt(context, channel, through)
  if (!position) throw new Error(`channel ${channel.id} has no entry ${through}`)
  for (const { sender: agent, size } of rows.weights(channel, base.index, through)) {
    channel.bytes -= size
    const sender = channel.senders.get(agent)
    if (!sender) continue
    sender.bytes -= size
    sender.entries -= 1
    touchSender(context, channel, sender)
  }
  rows.cut(channel, through)
  channel.base = position
  channel.oldestAt = undefined
  if (through < last.index) for (const { at } of rows.weights(channel, through, through + 1)) channel.oldestAt = at
  touch(context, channel)
  return through - base.index
}

/** Sets when the next sweep has something to do here. */
export function schedule(context: Context, channel: Channel): void {
  const { entryMs } = context.retention
  let due = channel.acked > channel.base.index ? 0 : Infinity
  if (channel.oldestAt !== undefined) due = Math.min(due, channel.oldestAt + entryMs)
  for (const { ended } of channel.members.values()) {
    if (ended && !ended.pending) due = Math.min(due, ended.at + entryMs)
  }
  const next = due === Infinity ? undefined : due
  if (next === channel.due) return
  channel.due = next
  touch(context, channel)
}

interface Gauge {
  readonly unit: 'bytes' | 'entries'
  /** Only what this sender holds; undefined: all. */
  readonly of: AgentId | undefined
  readonly slack: number
  over: number
}

/**
 * Up to which index a channel must be cut so that an entry has room; the base when there is room already. Refuses with
 * `queue_full` when what may be let go is not enough. Changes nothing. Without a sender its share is not looked at.
 */
export function findRoom(
  context: Context,
  channel: Channel,
  sender: Sender | undefined,
  size: number,
): number | Refusal {
  const base = channel.base.index
  const gauges = overfull(context, channel, sender, size)
  if (gauges.length === 0) return base

  const cursors = roster(channel).sort((one, other) => one.cursor.index - other.cursor.index)
  // Entries up to here are waited for by those before this one in the order: fewer than half.
  const reach = cursors[Math.ceil(cursors.length / 2) - 1]?.cursor.index ?? channel.last.index
  const full: Refusal = {
    refused: 'queue_full',
    lagging: cursors.filter(({ cursor }) => cursor.index <= reach).map(({ agent }) => agent),
  }
  const { stuck } = sender ?? {}
  if (stuck && stuck.base === base && stuck.reach === reach && stuck.size <= size) return full

  let through = base
  let slack = false
  for (const weight of context.rows.weights(channel, base, reach)) {
    if (weight.index > channel.acked) {
      if (gauges.every((gauge) => gauge.over <= (slack ? -gauge.slack : 0))) break
      slack = true
    }
    through = weight.index
    for (const gauge of gauges) {
      if (gauge.of === undefined || gauge.of === weight.sender) gauge.over -= gauge.unit === 'bytes' ? weight.size : 1
    }
  }
  if (gauges.every(({ over }) => over <= 0)) return through
  if (sender) sender.stuck = { base, reach, size }
  return full
}

/** The limits that one more entry would exceed. */
function overfull({ retention }: Context, channel: Channel, sender: Sender | undefined, size: number): Gauge[] {
  const { channelBytes, channelEntries } = retention
  const entries = channel.last.index - channel.base.index
  const gauges: Gauge[] = [
    { unit: 'bytes', of: undefined, slack: SLACK * channelBytes, over: channel.bytes + size - channelBytes },
    { unit: 'entries', of: undefined, slack: SLACK * channelEntries, over: entries + 1 - channelEntries },
  ]
  if (sender) {
    const bytes = SENDER_SHARE * channelBytes
    const count = SENDER_SHARE * channelEntries
    gauges.push(
      { unit: 'bytes', of: sender.agent, slack: SLACK * bytes, over: sender.bytes + size - bytes },
      { unit: 'entries', of: sender.agent, slack: SLACK * count, over: sender.entries + 1 - count },
    )
  }
  return gauges.filter(({ over }) => over > 0)
}

/** Lets go of what is acknowledged by all or expired, a bounded part of it at a time. */
export function sweep(context: Context, { now }: Request<'sweep'>): Result<'sweep'> {
  const { rows, retention } = context
  let removed = 0
  for (const id of rows.dueChannels(now, SWEEP_CHANNELS)) {
    const channel = rows.channel(id)
    if (channel) removed += tidy(context, channel, now, SWEEP_ENTRIES - removed)
    if (removed >= SWEEP_ENTRIES) break
  }
  rows.expireIds(now - retention.messageIdMs)
  rows.expireWelcomes(now - retention.entryMs)
  rows.expireInvites(now, now - ENDED_INVITE_MS)
  return { removed }
}

function tidy(context: Context, channel: Channel, now: Time, budget: number): number {
  const { rows, retention } = context
  const since = now - retention.entryMs
  const { base } = channel
  let through = Math.max(base.index, Math.min(channel.acked, base.index + budget))
  for (const { index, at } of rows.weights(channel, through, base.index + budget)) {
    if (at > since) break
    through = index
  }
  const removed = cut(context, channel, through)
  for (const member of channel.members.values()) {
    const { ended } = member
    if (!ended || ended.pending || ended.at > since) continue
    channel.members.delete(member.agent)
    touchMember(context, channel, member)
  }
  for (const sender of channel.senders.values()) {
    if (sender.entries > 0 || sender.barred || channel.members.has(sender.agent)) continue
    channel.senders.delete(sender.agent)
    touchSender(context, channel, sender)
  }
  schedule(context, channel)
  return removed
}
