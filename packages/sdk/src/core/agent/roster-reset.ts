/** Resets the relay's roster to the members of the group, after skipped commits have made it differ. */
import { fromHex, message, rosterBytes, StaticError } from '@static/protocol'
import { PositionSchema, ResetRosterRequestSchema } from '@static/protocol/relay'
import { refusalError } from '../../refusal.ts'
import type { Membership } from '../channel/membership.ts'
import type { AgentServices } from './services.ts'

/** Others may commit meanwhile. The reset is then signed again for the next head. */
const MAX_TRIES = 8

/**
 * Sends the relay the members of the group, signed for this agent's position in the log.
 *
 * @throws {StaticError} `not_allowed` for anyone but the owner, `epoch_mismatch` while others keep committing, or the
 * error that ended or forked the channel, because this agent does not know the members then
 */
export async function resetRoster(
  { context, requests }: Pick<AgentServices, 'context' | 'requests'>,
  membership: Membership,
): Promise<void> {
  if (membership.owner !== context.agentId) {
    throw StaticError.of(
      'not_allowed',
      `Channel ${membership.name} belongs to agent ${membership.owner}. Only its owner can reset its roster.`,
    )
  }
  for (let tries = 1; ; tries++) {
    const refusal = membership.committer.refusal
    if (refusal) throw refusal
    await membership.intake.catchUp()
    const { group, history, channelId } = membership
    if (!group) throw membership.failure ?? StaticError.of('closed', `Channel ${membership.name} is closed.`)
    const { index, hash, slot } = history.position
    const position = { index: BigInt(index), hash, slot: BigInt(slot) }
    const agentIds = [...group.members.keys()].map(fromHex)
    const signature = context.sign(rosterBytes({ channelId, ...position, agentIds }))
    const value = message(ResetRosterRequestSchema, {
      channelId,
      position: message(PositionSchema, position),
      agentIds,
      signature,
    })
    const outcome = await requests.outcome({ case: 'resetRoster', value })
    if (outcome.type !== 'refused') return
    if (outcome.error.code !== 'epoch_mismatch' || tries >= MAX_TRIES) throw refusalError(outcome.error)
  }
}
