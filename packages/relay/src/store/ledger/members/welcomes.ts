/**
 * Welcomes pending for their joiners, and the GroupInfo shared by those of one commit, which is kept until the last of
 * them is deleted. Both count towards the channel's size, as entries do.
 */
import type { AgentId, Time } from '../../../ports.ts'
import type { Context } from '../context.ts'
import { hold } from '../room/room.ts'
import { type NewWelcome, WELCOME_OVERHEAD } from '../rows/welcomes.ts'
import type { Channel } from '../state.ts'

/** Maximum number of Welcomes that one sweep expires. */
const SWEEP_WELCOMES = 1024

/** How much Welcomes count towards the limits, without the GroupInfo they share. */
export function welcomeBytes(welcomes: readonly { readonly welcome: Uint8Array }[]): number {
  return welcomes.reduce((sum, { welcome }) => sum + welcome.length + WELCOME_OVERHEAD, 0)
}

/** Stores a Welcome, replacing the one pending for this agent. */
export function putWelcome(context: Context, channel: Channel, welcome: NewWelcome, at: Time): void {
  dropWelcome(context, channel, welcome.agent)
  context.rows.welcomes.put(channel, welcome, at)
  hold(context, channel, welcomeBytes([welcome]))
}

/** Deletes the Welcome pending for an agent, if there is one. */
export function dropWelcome(context: Context, channel: Channel, agent: AgentId): void {
  const { rows } = context
  const dropped = rows.welcomes.drop(channel, agent)
  if (!dropped) return
  const { bytes, shared } = dropped
  const freed = shared === undefined ? 0 : rows.welcomes.dropGroupInfo(channel, shared)
  hold(context, channel, -bytes - WELCOME_OVERHEAD - freed)
}

/** Stores the GroupInfo shared by the Welcomes of the commit at an index. Must be called before these are stored. */
export function putGroupInfo(context: Context, channel: Channel, index: number, groupInfo: Uint8Array): void {
  context.rows.welcomes.putGroupInfo(channel, index, groupInfo)
  hold(context, channel, groupInfo.length)
}

/** Deletes Welcomes from before `since`, a limited number at a time. */
export function expireWelcomes(context: Context, since: Time): void {
  const { rows } = context
  for (const { channel: id, agent } of rows.due.welcomes(since, SWEEP_WELCOMES)) {
    const channel = rows.channels.get(id)
    if (channel) dropWelcome(context, channel, agent)
    rows.settle()
  }
}
