/** How much of the owner's quota the guests of a channel use in a day. */
import type { Refusal, Time } from '../../../ports.ts'
import { refuse } from '../context.ts'
import type { Channel } from '../state.ts'
import { HOUR, isCurrent } from './allowance.ts'

const DAY = 24 * HOUR

/** Why guests may send nothing more today; undefined if they may. */
export function guestRefusal(channel: Channel, now: Time): Refusal | undefined {
  if (guestsSoFar(channel, now) < channel.guestLimit) return undefined
  return refuse(
    'quota_exceeded',
    `Guests of this channel have reached its limit of ${channel.guestLimit} messages a day. Retry tomorrow (UTC).`,
  )
}

/** Counts a message or a part of a guest. */
export function countGuest(channel: Channel, now: Time): void {
  channel.guestCount = guestsSoFar(channel, now) + 1
  if (!isCurrent(channel.guestDay, now, DAY)) channel.guestDay = Math.floor(now / DAY)
}

function guestsSoFar(channel: Channel, now: Time): number {
  return isCurrent(channel.guestDay, now, DAY) ? channel.guestCount : 0
}
