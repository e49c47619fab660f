/**
 * What commits and Welcomes may take (SPEC.md, "Payment"): so many bytes an hour are free for each sender and for each
 * channel. Beyond that the owner pays, and everybody else waits. Whoever a non-owner brought in shares its allowance
 * until the owner has committed since, so that made-up members multiply nothing.
 */
import type { AgentId, Refusal, Time, Unpaid } from '../../ports.ts'
import { type Context, refuse, senderOf, touch, touchSender } from './context.ts'
import { type Channel, type Sender, isConfirmed } from './state.ts'

export const HOUR = 3600_000
/** What one message of the owner's quota pays for. */
const UNIT_BYTES = 4096

/** What an operation may take, and what of it is paid for. */
export interface Allowed {
  /** Messages of the owner's quota. */
  readonly units: number
}

interface Hourly {
  hour: number
  commitBytes: number
}

/** Whether the counts of a record are of this hour. */
export function isThisHour({ hour }: { readonly hour: number }, now: Time): boolean {
  return hour === Math.floor(now / HOUR)
}

/** Begins to count anew in a new hour. */
export function beginHour(record: Sender | Channel, now: Time): void {
  if (isThisHour(record, now)) return
  record.hour = Math.floor(now / HOUR)
  record.commitBytes = 0
  if ('free' in record) record.free = 0
  else record.adds = 0
}

/** Whether a commit or Welcome of so many bytes may be taken: free, paid for, or not now. Changes nothing. */
export function allowBytes(
  { retention }: Context,
  channel: Channel,
  agent: AgentId,
  bytes: number,
  paid: number,
  now: Time,
): Allowed | Unpaid | Refusal {
  const { freeCommitBytes, freeChannelCommitBytes } = retention
  const sender = channel.senders.get(responsible(channel, agent))
  const used = sender ? usedBytes(sender, now) : 0
  const excess = Math.min(bytes, Math.max(0, used + bytes - freeCommitBytes))
  if (agent === channel.owner) {
    const units = Math.ceil(excess / UNIT_BYTES)
    return units <= paid ? { units } : { unpaid: channel.account, units }
  }
  if (bytes > freeCommitBytes) {
    const message = `A commit with its Welcomes, or a Welcome, has ${bytes} bytes; a member that is not the owner may send ${freeCommitBytes} an hour.`
    return refuse('too_large', message)
  }
  if (excess > 0) return waitForHour(`${freeCommitBytes} bytes of commits and Welcomes an hour and sender`, now)
  if (usedBytes(channel, now) + bytes > freeChannelCommitBytes) {
    return waitForHour(`${freeChannelCommitBytes} bytes of commits and Welcomes an hour and channel`, now)
  }
  return { units: 0 }
}

/** Counts what was taken. */
export function countBytes(context: Context, channel: Channel, agent: AgentId, bytes: number, now: Time): void {
  const sender = senderOf(channel, responsible(channel, agent))
  beginHour(sender, now)
  const free = Math.max(0, Math.min(bytes, context.retention.freeCommitBytes - sender.commitBytes))
  sender.commitBytes += bytes
  touchSender(context, channel, sender)
  // What the owner pays for leaves the channel's allowance to the others.
  beginHour(channel, now)
  channel.commitBytes += free
  touch(context, channel)
}

/** Whether an agent may add so many members now; the owner always may. Changes nothing. */
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
  if (used + adds <= memberAddsPerHour) return undefined
  if (adds > memberAddsPerHour) {
    return refuse('too_large', `A commit adds ${adds} members; others than the owner add ${memberAddsPerHour} an hour.`)
  }
  return waitForHour(`${memberAddsPerHour} members an hour that others than the owner add`, now)
}

/** Counts those that were added. */
export function countAdds(context: Context, channel: Channel, agent: AgentId, adds: number, now: Time): void {
  if (agent === channel.owner || adds === 0) return
  beginHour(channel, now)
  channel.adds += adds
  touch(context, channel)
}

/** Whose allowance an agent uses: its own, or that of the first who brought in the unconfirmed ones before it. */
function responsible(channel: Channel, agent: AgentId): AgentId {
  let current = agent
  let from = Infinity
  for (;;) {
    const member = channel.members.get(current)
    // An adder that was itself added later is out of that line: without this two could stand behind each other.
    if (!member?.adder || member.from >= from || isConfirmed(member, channel.ownerCommit)) return current
    ;({ from } = member)
    current = member.adder
  }
}

function usedBytes(record: Hourly, now: Time): number {
  return isThisHour(record, now) ? record.commitBytes : 0
}

function waitForHour(limit: string, now: Time): Refusal {
  const message = `The channel allows ${limit}: try again in the next hour.`
  return { refused: 'rate_limited', message, retryAfterMs: HOUR - (now % HOUR) }
}
