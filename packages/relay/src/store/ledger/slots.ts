/**
 * The commits that can still be rejected. They are remembered as long as entries are kept: a window counted in slots
 * could be used up by anyone who commits fast.
 */
import type { Refusal, Time } from '../../ports.ts'
import { type Context, touch } from './context.ts'
import type { Channel, Slot } from './state.ts'

/** Maximum number of slots a channel remembers: 97 commits an hour for a week. */
const MAX_SLOTS = 16_384
/** Maximum number of slots that one sweep forgets in a channel. */
const SWEEP_SLOTS = 1024

/**
 * Whether one more commit can be remembered. A commit of the owner evicts the oldest one instead. Commits from before a
 * reset of the roster do not count, because they can no longer be rejected; otherwise a used-up window would keep the
 * other members from committing for a week.
 */
export function judgeSlots({ retention }: Context, channel: Channel, now: Time): Refusal | undefined {
  if (channel.last.slot - Math.max(channel.firstSlot, channel.settled) < MAX_SLOTS) return undefined
  const message = `The channel has had ${MAX_SLOTS} commits that can still be rejected. Only its owner can commit for now.`
  const retryAfterMs = Math.max(1, (channel.slotAt ?? now) + retention.entryMs - now)
  return { refused: 'rate_limited', message, retryAfterMs }
}

/** Remembers a commit. */
export function keepSlot(context: Context, channel: Channel, slot: Slot): void {
  const { rows } = context
  if (slot.slot - channel.firstSlot >= MAX_SLOTS) forget(context, channel, slot.slot - MAX_SLOTS)
  rows.putSlot(channel, slot)
  if (channel.firstSlot !== slot.slot) return
  channel.slotAt = slot.at
  touch(context, channel)
}

/** Forgets commits accepted before `since`. */
export function forgetSlots(context: Context, channel: Channel, since: Time): void {
  const { rows } = context
  if (channel.slotAt === undefined || channel.slotAt > since) return
  const end = Math.min(channel.last.slot, channel.firstSlot + SWEEP_SLOTS)
  let through = channel.firstSlot
  while (through + 1 < end && (rows.slot(channel, through + 1)?.at ?? 0) <= since) through++
  forget(context, channel, through)
}

function forget(context: Context, channel: Channel, through: number): void {
  context.rows.dropSlotsThrough(channel, through)
  channel.firstSlot = through + 1
  channel.slotAt = context.rows.slot(channel, through + 1)?.at
  touch(context, channel)
}
