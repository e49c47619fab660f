/**
 * Welcomes that wait for their joiners, and the GroupInfo that those of one commit share, until the last of them is gone.
 * They count in what the channel holds, as entries do.
 */
import type { AgentId, Time } from '../../ports.ts'
import type { Context } from './context.ts'
import { hold } from './room.ts'
import { type NewWelcome, WELCOME_OVERHEAD } from './rows.ts'
import type { Channel } from './state.ts'

/** What one sweep lets expire. */
const SWEEP_WELCOMES = 1024

/** What Welcomes count for, without what they share. */
export function welcomeBytes(welcomes: readonly { readonly welcome: Uint8Array }[]): number {
  return welcomes.reduce((sum, { welcome }) => sum + welcome.length + WELCOME_OVERHEAD, 0)
}

/** Keeps one instead of the one that waits for this agent. */
export function putWelcome(context: Context, channel: Channel, welcome: NewWelcome, at: Time): void {
  dropWelcome(context, channel, welcome.agent)
  context.rows.putWelcome(channel, welcome, at)
  hold(context, channel, welcomeBytes([welcome]))
}

/** Forgets the one that waits for an agent, if there is one. */
export function dropWelcome(context: Context, channel: Channel, agent: AgentId): void {
  const { rows } = context
  const dropped = rows.dropWelcome(channel, agent)
  if (!dropped) return
  const { bytes, shared } = dropped
  const freed = shared === undefined ? 0 : rows.dropGroupInfo(channel, shared)
  hold(context, channel, -bytes - WELCOME_OVERHEAD - freed)
}

/** Keeps what follows the Welcomes of the commit at an index, before these. */
export function putGroupInfo(context: Context, channel: Channel, index: number, groupInfo: Uint8Array): void {
  context.rows.putGroupInfo(channel, index, groupInfo)
  hold(context, channel, groupInfo.length)
}

/** Forgets those from before `since`, a bounded part of them at a time. */
export function expireWelcomes(context: Context, since: Time): void {
  const { rows } = context
  for (const { channel: id, agent } of rows.oldWelcomes(since, SWEEP_WELCOMES)) {
    const channel = rows.channel(id)
    if (channel) dropWelcome(context, channel, agent)
    rows.settle()
  }
}
