/** Removing a member on behalf of the owner. */
import { fromHex } from '@static/protocol'
import type { AgentId } from '../ports/index.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AgentContext } from './context.ts'

/**
 * Removes a member, even one that has seen a different history.
 *
 * @throws {StaticError} `not_allowed`, `not_found`
 */
export async function removeMember(
  { invites }: Pick<AgentContext, 'invites'>,
  channel: AgentChannel,
  agent: AgentId,
): Promise<void> {
  const done = await invites?.removing(channel.id, agent)
  try {
    await channel.committer.commit(() => ({ removes: [fromHex(agent)] }), { despiteForkOf: agent })
  } finally {
    done?.()
  }
}
