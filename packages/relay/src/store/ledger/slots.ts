/**
 * The commits that can still be rejected. They are remembered for as long as entries live: a window of so many slots
 * could be burnt by whoever commits fast.
 */
import type { Refusal, Time } from '../../ports.ts'
import { type Context, touch } from './context.ts'
import type { Channel, Slot } from './state.ts'

/** Slots that a channel remembers at most: 97 commits an hour, for a week. */
const MAX_SLOTS = 16_384
/** What one sweep forgets of a channel. */
const SWEEP_SLOTS = 1024

/**
 * Whether one more commit can be remembered. For the owner's the oldest one goes instead; so does one from before a reset
 * of the roster, which nobody can reject any more: otherwise a burnt window would shut the others out for a week.
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

/** Forgets those that were accepted before `since`. */
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
