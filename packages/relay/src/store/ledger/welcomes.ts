/** Welcomes that wait for their joiners. They count in what the channel holds, as entries do. */
import type { AgentId, Time } from '../../ports.ts'
import type { Context } from './context.ts'
import { hold } from './room.ts'
import { type NewWelcome, WELCOME_OVERHEAD } from './rows.ts'
import type { Channel } from './state.ts'

/** What one sweep lets expire. */
const SWEEP_WELCOMES = 1024

/** What Welcomes count for. */
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
  const size = context.rows.dropWelcome(channel, agent)
  if (size === undefined) return
  hold(context, channel, -size - WELCOME_OVERHEAD)
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
