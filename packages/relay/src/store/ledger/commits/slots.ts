/**
 * The commits that can still be rejected. They are remembered as long as entries are kept: a window counted in slots
 * could be used up by anyone who commits fast.
 */
import type { Refusal, Time } from '../../../ports.ts'
import { type Context, touch } from '../context.ts'
import { hold } from '../room/room.ts'
import { SLOT_BYTES, TURN_BYTES } from '../rows/slots.ts'
import type { Channel, Slot } from '../state.ts'

/** Maximum number of slots a channel remembers: 97 commits an hour for a week. */
const MAX_SLOTS = 16_384

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

export function keepSlot(context: Context, channel: Channel, slot: Slot): void {
  const { rows } = context
  if (slot.slot - channel.firstSlot >= MAX_SLOTS) forgetFirst(context, channel)
  rows.slots.put(channel, slot)
  hold(context, channel, SLOT_BYTES)
  if (channel.firstSlot !== slot.slot) return
  channel.slotAt = slot.at
  touch(context, channel)
}

/** Forgets commits accepted before `since`, until about `budget` rows are deleted. Returns how many were. */
export function forgetSlots(context: Context, channel: Channel, since: Time, budget: number): number {
  if (channel.slotAt === undefined || channel.slotAt > since) return 0
  let deleted = 0
  do deleted += forgetFirst(context, channel)
  while (deleted < budget && channel.firstSlot < channel.last.slot && (channel.slotAt ?? 0) <= since)
  return deleted
}

/** Forgets the lowest slot. Returns how many rows were deleted. */
function forgetFirst(context: Context, channel: Channel): number {
  const { slots, turns } = context.rows.slots.drop(channel, channel.firstSlot)
  hold(context, channel, -slots * SLOT_BYTES - turns * TURN_BYTES)
  channel.firstSlot += 1
  channel.slotAt = context.rows.slots.get(channel, channel.firstSlot)?.at
  touch(context, channel)
  return slots + turns
}
