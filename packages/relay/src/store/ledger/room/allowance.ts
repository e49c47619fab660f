/**
 * The hourly allowance for commits and Welcomes (SPEC.md, "Payment"): each sender and each channel has a number of free
 * bytes an hour. Beyond it, the owner pays and everyone else waits. Members that the owner has not vouched for share
 * the allowance of the vouched member that sponsors them. Those that the owner or an invite for members brought in
 * share a single one, so that made-up members do not multiply it.
 */
import type { Account, AgentId, Refusal, Time, Unpaid } from '../../../ports.ts'
import { type Context, refuse, senderOf, touch, touchSender } from '../context.ts'
import { type Channel, type Sender, isVouched, isVouchedIn } from '../state.ts'

export const HOUR = 3600_000
/** Bytes that one message of the owner's quota pays for. */
const UNIT_BYTES = 4096
/** Share of the members that may be added in an hour after which only vouched members add more. */
const UNVOUCHED_ADDS = 1 / 3

/** The price of an allowed operation. */
export interface Allowed {
  /** Messages of the owner's quota. */
  readonly units: number
}

interface Hourly {
  hour: number
  commitBytes: number
}

/** Whether the counts of a record apply to the current hour. */
export function isThisHour({ hour }: { readonly hour: number }, now: Time): boolean {
  return isCurrent(hour, now, HOUR)
}

/**
 * Whether the counts of a period apply now. Node clocks differ a little: if the next period has begun at another node,
 * messages arriving alternately there and here must not restart it each time.
 */
export function isCurrent(period: number, now: Time, length: number): boolean {
  const ahead = period - Math.floor(now / length)
  return ahead === 0 || ahead === 1
}

/** Resets the counts when a new hour has begun. */
export function beginHour(record: Sender | Channel, now: Time): void {
  if (isThisHour(record, now)) return
  record.hour = Math.floor(now / HOUR)
  record.commitBytes = 0
  if ('free' in record) {
    record.free = 0
    return
  }
  record.adds = 0
  record.unvouchedBytes = 0
}

/**
 * Whether a commit or Welcome of `bytes` is free, must be paid for, or is refused for now. Changes nothing. The owner pays,
 * and the account that becomes the owner's with the commit.
 */
export function allowBytes(
  { retention }: Context,
  channel: Channel,
  agent: AgentId,
  bytes: number,
  paid: number,
  now: Time,
  payer: Account | undefined = agent === channel.owner ? channel.account : undefined,
): Allowed | Unpaid | Refusal {
  const { freeCommitBytes, freeChannelCommitBytes } = retention
  const sponsor = sponsorOf(channel, agent)
  const sender = sponsor === undefined ? undefined : channel.senders.get(sponsor)
  const used = sponsor === undefined ? usedByUnvouched(channel, now) : sender ? usedBytes(sender, now) : 0
  const excess = Math.min(bytes, Math.max(0, used + bytes - freeCommitBytes))
  if (payer) {
    const units = Math.ceil(excess / UNIT_BYTES)
    return units <= paid ? { units } : { unpaid: payer, units }
  }
  if (bytes > freeCommitBytes) {
    const message = `The commit or Welcome has ${bytes} bytes. Members other than the owner can send at most ${freeCommitBytes} an hour.`
    return refuse('too_large', message)
  }
  if (excess > 0) return waitForHour(`${freeCommitBytes} bytes of commits and Welcomes per sender and hour`, now)
  if (usedBytes(channel, now) + bytes > freeChannelCommitBytes) {
    return waitForHour(`${freeChannelCommitBytes} free bytes of commits and Welcomes an hour`, now)
  }
  return { units: 0 }
}

/** Counts an accepted commit or Welcome. */
export function countBytes(context: Context, channel: Channel, agent: AgentId, bytes: number, now: Time): void {
  beginHour(channel, now)
  touch(context, channel)
  const sponsor = sponsorOf(channel, agent)
  if (sponsor === undefined) {
    channel.unvouchedBytes += bytes
    channel.commitBytes += bytes
    return
  }
  const sender = senderOf(channel, sponsor)
  beginHour(sender, now)
  // Bytes that the owner pays for do not use up the channel's allowance.
  channel.commitBytes += Math.max(0, Math.min(bytes, context.retention.freeCommitBytes - sender.commitBytes))
  sender.commitBytes += bytes
  touchSender(context, channel, sender)
}

/**
 * Whether an agent may add `adds` members now; the owner always may. All adds count together, but unvouched members may
 * make only the first ones of an hour, so that they never use up the rest. Changes nothing.
 */
export function allowAdds(
  { retention }: Context,
  channel: Channel,
  agent: AgentId,
  adds: number,
  now: Time,
): Refusal | undefined {
  const { memberAddsPerHour } = retention
  if (agent === channel.owner || adds === 0) return undefined
  const used = isThisHour(channel, now) ? channel.adds : 0
  const unvouchedAdds = Math.ceil(memberAddsPerHour * UNVOUCHED_ADDS)
  const limit = isVouchedIn(channel, agent) ? memberAddsPerHour : unvouchedAdds
  if (used + adds <= limit) return undefined
  const allowed =
    `${memberAddsPerHour} members an hour added by anyone but the owner, ` +
    `of which members that the owner has not vouched for can add only the first ${unvouchedAdds}`
  if (adds > limit) return refuse('too_large', `The commit adds ${adds} members. The channel allows ${allowed}.`)
  return waitForHour(allowed, now)
}

export function countAdds(context: Context, channel: Channel, agent: AgentId, adds: number, now: Time): void {
  if (agent === channel.owner || adds === 0) return
  beginHour(channel, now)
  channel.adds += adds
  touch(context, channel)
}

/**
 * The vouched member whose allowance an agent uses; undefined if it uses the one shared by all unvouched members that
 * the owner or an invite for members brought in. It also sponsors the agents that this agent adds, so that a chain of
 * adders does not break when one leaves.
 */
export function sponsorOf(channel: Channel, agent: AgentId): AgentId | undefined {
  const member = channel.members.get(agent)
  return !member || isVouched(member) ? agent : member.sponsor
}

function usedByUnvouched(channel: Channel, now: Time): number {
  return isThisHour(channel, now) ? channel.unvouchedBytes : 0
}

function usedBytes(record: Hourly, now: Time): number {
  return isThisHour(record, now) ? record.commitBytes : 0
}

function waitForHour(limit: string, now: Time): Refusal {
  const message = `The channel allows ${limit}. Retry in the next hour.`
  return { refused: 'rate_limited', message, retryAfterMs: HOUR - (now % HOUR) }
}
