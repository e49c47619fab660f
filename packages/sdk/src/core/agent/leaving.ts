/** Leaving a channel: needs this agent's key and nothing else, so that it works with a broken group, too. */
import { leaveBytes, StaticError } from '@static/protocol'
import { refusalError } from '../../session/refusal.ts'
import type { Agent } from './agent.ts'
import type { Membership } from '../channel/membership.ts'

/**
 * Leaves. Goes on by itself after a crash or a lost session.
 *
 * @throws {StaticError} `not_allowed` for the owner, who deletes the channel instead
 */
export async function leaveChannel(agent: Agent, membership: Membership): Promise<void> {
  const before = membership.state
  if (before === 'ended') return agent.drop(membership, undefined)
  if (membership.failure?.code === 'closed') throw membership.failure
  if (membership.isOwn) throw StaticError.of('not_allowed', 'The owner does not leave its channel: it deletes it.')
  membership.become('leaving')
  await agent.journal.written()
  try {
    await finishLeaving(agent, membership)
  } catch (error) {
    // An agent that is closed goes on leaving when it starts again.
    if (!(error instanceof StaticError && error.code === 'closed')) {
      membership.become(before)
      membership.resume()
    }
    throw error
  }
}

/** The rest of it: the signed notice, in the log. */
export async function finishLeaving(agent: Agent, membership: Membership): Promise<void> {
  const { channelId } = membership
  const { publicKey } = agent.key
  let { slot } = membership.history.position
  while (agent.memberships.get(membership.id) === membership) {
    const signature = agent.sign(leaveBytes(channelId, BigInt(slot)))
    const outcome = await agent.outcome({
      case: 'leave',
      value: {
        $typeName: 'static.relay.v1.LeaveRequest',
        channelId,
        notice: { $typeName: 'static.relay.v1.LeaveNotice', publicKey, slot: BigInt(slot), signature },
      },
    })
    const code = outcome.type === 'refused' ? outcome.error.code : undefined
    if (outcome.type === 'refused' && code === 'epoch_mismatch' && outcome.error.head !== undefined) {
      slot = Number(outcome.error.head)
      continue
    }
    // Whoever is not on the roster has left, by this request's first try or by being removed.
    if (outcome.type === 'refused' && code !== 'not_found' && code !== 'removed') throw refusalError(outcome.error)
    agent.drop(membership, undefined)
    await agent.journal.written()
    return
  }
}
