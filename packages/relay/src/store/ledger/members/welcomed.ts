/** Agents whose join request was answered by a pending Welcome. */
import type { AgentId, ChannelId } from '../../../ports.ts'
import type { Rows } from '../rows/rows.ts'
import { onRoster } from '../state.ts'

/** Whether an agent was added because of a join request and has not yet fetched its Welcome. */
export function isWelcomed(rows: Rows, channel: ChannelId, agent: AgentId): boolean {
  const member = rows.channels.glance(channel, agent)?.member
  return onRoster(member) && member.welcome !== undefined && isInvited(rows, channel, agent)
}

/** Whether an agent's pending Welcome answers a join request. If not, a member added it unasked. */
function isInvited(rows: Rows, channel: ChannelId, agent: AgentId): boolean {
  for (const { sequence } of rows.welcomes.of(agent, 0)) {
    const welcome = rows.welcomes.get(sequence)
    if (welcome.channel === channel) return welcome.inviteId.length > 0
  }
  return false
}
