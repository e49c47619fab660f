/** Agents whose request to join was answered by a Welcome that waits for them. */
import type { AgentId, ChannelId } from '../../../ports.ts'
import type { Rows } from '../rows/rows.ts'
import { onRoster } from '../state.ts'

/** Whether an agent was added because of a join request, and has yet to fetch its Welcome. */
export function isWelcomed(rows: Rows, channel: ChannelId, agent: AgentId): boolean {
  const member = rows.channels.glance(channel, agent)?.member
  return onRoster(member) && member.welcome !== undefined && isInvited(rows, channel, agent)
}

/** Whether the Welcome that waits for an agent answers a join request. If not, a member has added it unasked. */
function isInvited(rows: Rows, channel: ChannelId, agent: AgentId): boolean {
  for (const { sequence } of rows.welcomes.of(agent, 0)) {
    const welcome = rows.welcomes.get(sequence)
    if (welcome.channel === channel) return welcome.inviteId.length > 0
  }
  return false
}
