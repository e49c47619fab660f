/**
 * When the log drops entries: once no member needs them, once they are too old, and in a full channel (room.ts) first
 * those that only removed members need, then those that too few of the vouched members need. An agent that missed
 * entries gets a gap when it next reads.
 */
import type { AgentId, StoreRequest, StoreResult, Time } from '../../../ports.ts'
import { type Context, touch, touchMember, touchSender } from '../context.ts'
import { expireInvites } from '../invites/invites.ts'
import { positionAt } from '../log/log.ts'
import { type Channel, type Member, findMember, forgetMember, isAwaited, lowestCursor, unawaited } from '../state.ts'
import { hold, keepSearches } from './room.ts'
import { forgetSlots } from '../commits/slots.ts'
import { dropWelcome, expireWelcomes } from '../members/welcomes.ts'

/** Minimum number of entries to delete immediately; fewer are left to the sweep. */
const WORTH_CUTTING = 64
/** Maximum number of entries that one acknowledgement deletes; the sweep does the rest. */
const ACK_BUDGET = 1024
/** Maximum number of entries and roster records deleted and channels visited by one sweep: other operations wait. */
const SWEEP_ENTRIES = 4096
const SWEEP_RECORDS = 4096
const SWEEP_CHANNELS = 256
/** Maximum number of former members of a channel, and how many are kept when it is exceeded. */
const MAX_FORMER = 1000
const KEPT_FORMER = 900
/** Maximum number of remembered senders that are not members and have no entries, but are barred or used an account. */
const MAX_IDLE_SENDERS = 1000
/** How long an invite is kept after its end. */
const ENDED_INVITE_MS = 24 * 3600_000

/** What one sweep may still delete. */
interface Budget {
  entries: number
  records: number
}

/** Must be called when cursors or the roster have changed: deletes large batches and leaves the rest to the sweep. */
export function letGo(context: Context, channel: Channel): void {
  if (channel.former.size > MAX_FORMER) forgetFormer(context, channel)
  channel.acked = lowestCursor(channel)
  const free = unawaited(channel)
  const { base } = channel
  if (free - base.index >= WORTH_CUTTING) cut(context, channel, Math.min(free, base.index + ACK_BUDGET))
  schedule(context, channel)
}

/** Deletes the entries up to and including an index. Returns how many. */
export function cut(context: Context, channel: Channel, through: number): number {
  const { rows } = context
  const { base, last } = channel
  if (through <= base.index) return 0
  const position = positionAt(context, channel, through)
  if (!position) throw new Error(`entry ${through} of channel ${channel.id} was already deleted`)
  let freed = 0
  const dropped = new Map<AgentId, { bytes: number; entries: number }>()
  for (const { sender: agent, size } of rows.log.weights(channel, base.index, through)) {
    freed += size
    const { bytes, entries } = dropped.get(agent) ?? { bytes: 0, entries: 0 }
    dropped.set(agent, { bytes: bytes + size, entries: entries + 1 })
    const sender = channel.senders.get(agent)
    if (!sender) continue
    sender.bytes -= size
    sender.entries -= 1
    touchSender(context, channel, sender)
  }
  rows.log.cut(channel, through)
  keepSearches(channel, through, dropped)
  channel.base = position
  channel.oldestAt = undefined
  if (through < last.index) for (const { at } of rows.log.weights(channel, through, through + 1)) channel.oldestAt = at
  hold(context, channel, -freed)
  return through - base.index
}

/** Sets when the sweep next has work in this channel. */
export function schedule(context: Context, channel: Channel): void {
  const { entryMs } = context.retention
  let due = unawaited(channel) > channel.base.index ? 0 : Infinity
  if (channel.oldestAt !== undefined) due = Math.min(due, channel.oldestAt + entryMs)
  channel.firstEnd ??= firstEnd(channel)
  due = Math.min(due, channel.firstEnd + entryMs, (channel.slotAt ?? Infinity) + entryMs)
  const next = due === Infinity ? undefined : due
  if (next === channel.due) return
  channel.due = next
  touch(context, channel)
}

function firstEnd({ former }: Channel): Time {
  let first = Infinity
  for (const { ended } of former.values()) if (ended) first = Math.min(first, ended.at)
  return first
}

/** Deletes entries that all members have acknowledged or that have expired, a limited number at a time. */
export function sweep(context: Context, { now }: StoreRequest<'sweep'>): StoreResult<'sweep'> {
  const { rows, retention } = context
  const budget: Budget = { entries: SWEEP_ENTRIES, records: SWEEP_RECORDS }
  for (const id of rows.due.channels(now, SWEEP_CHANNELS)) {
    if (budget.entries <= 0 || budget.records <= 0) continue
    const channel = rows.channels.get(id)
    if (channel) tidy(context, channel, now, budget)
    rows.settle()
  }
  rows.ids.expire(now - retention.messageIdMs)
  expireWelcomes(context, now - retention.entryMs)
  expireInvites(context, now - ENDED_INVITE_MS)
  rows.transient.expire(now)
  rows.purge()
  return { removed: SWEEP_ENTRIES - budget.entries }
}

function tidy(context: Context, channel: Channel, now: Time, budget: Budget): void {
  const { rows, retention } = context
  const since = now - retention.entryMs
  const { base } = channel
  let through = Math.max(base.index, Math.min(unawaited(channel), base.index + budget.entries))
  for (const { index, at } of rows.log.weights(channel, through, base.index + budget.entries)) {
    if (at > since) break
    through = index
  }
  budget.entries -= cut(context, channel, through)
  for (const member of channel.former.values())
    if (member.ended && member.ended.at <= since) forget(context, channel, member)
  forgetSenders(context, channel)
  budget.records -= forgetSlots(context, channel, since, budget.records)
  schedule(context, channel)
}

/** Bounds the former members of a channel: drops those that have read everything first, then the oldest. */
function forgetFormer(context: Context, channel: Channel): void {
  const order = [...channel.former.values()].sort(
    (one, other) =>
      Number(isAwaited(one)) - Number(isAwaited(other)) ||
      (one.ended?.at ?? 0) - (other.ended?.at ?? 0) ||
      (one.ended?.position.index ?? 0) - (other.ended?.position.index ?? 0) ||
      (one.agent < other.agent ? -1 : 1),
  )
  for (const member of order.slice(0, order.length - KEPT_FORMER)) forget(context, channel, member)
  forgetSenders(context, channel)
}

function forget(context: Context, channel: Channel, member: Member): void {
  forgetMember(channel, member.agent)
  touchMember(context, channel, member)
  if (member.welcome !== undefined) dropWelcome(context, channel, member.agent)
}

/** Forgets senders without entries that are not members, but keeps a limited number with a bar or a used account. */
function forgetSenders(context: Context, channel: Channel): void {
  const idle = [...channel.senders.values()].filter(
    ({ agent, entries }) => entries === 0 && !findMember(channel, agent),
  )
  const marked = idle
    .filter(({ barred, acted }) => barred || acted)
    .sort(
      (one, other) =>
        Number(other.barred) - Number(one.barred) || other.seen - one.seen || (one.agent < other.agent ? -1 : 1),
    )
  const kept = new Set(marked.slice(0, MAX_IDLE_SENDERS))
  for (const sender of idle) {
    if (kept.has(sender)) continue
    channel.senders.delete(sender.agent)
    touchSender(context, channel, sender)
  }
}
