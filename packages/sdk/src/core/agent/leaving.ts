/** Leaving a channel. Needs only this agent's key, so that it works even with a broken group. */
import { leaveBytes, message, StaticError } from '@static/protocol'
import { LeaveNoticeSchema, LeaveRequestSchema } from '@static/protocol/relay'
import { refusalError } from '../../session/refusal.ts'
import type { Membership } from '../channel/membership.ts'
import type { AgentServices } from './services.ts'

/** The services that leaving needs. */
type Leaving = Pick<AgentServices, 'context' | 'memberships' | 'requests'>

/** The most notices signed for one leave: the relay names the head, and could otherwise get one for every head. */
const MOST_TRIES = 8

/**
 * Leaves a channel. Continues automatically after a crash or a lost session.
 *
 * @throws {StaticError} `not_allowed` for the owner, who deletes the channel instead
 */
export async function leaveChannel(agent: Leaving, membership: Membership): Promise<void> {
  const { agentId, journal } = agent.context
  const before = membership.state
  if (before === 'ended') return agent.memberships.drop(membership, undefined)
  if (membership.failure?.code === 'closed') throw membership.failure
  if (membership.owner === agentId) {
    throw StaticError.of('not_allowed', `The owner cannot leave its channel ${membership.name}. Delete it instead.`)
  }
  membership.become('leaving')
  await journal.written()
  try {
    await finishLeaving(agent, membership)
  } catch (error) {
    // A closed agent continues leaving when it starts again.
    if (!(error instanceof StaticError && error.code === 'closed')) {
      // The signed notice may be kept for later. Replacing the leaf makes it invalid.
      membership.become(before, true)
      membership.intake.resume()
    }
    throw error
  }
}

/** Finishes leaving: gets the signed notice into the log. */
export async function finishLeaving(agent: Leaving, membership: Membership): Promise<void> {
  const { channelId } = membership
  const { memberships, requests, context } = agent
  const { publicKey } = context.key
  let slot = BigInt(membership.history.position.slot)
  for (let tries = 1; memberships.get(membership.id) === membership; tries++) {
    const leafKeys = [...membership.standing.leafKeys]
    const signature = context.sign(leaveBytes(channelId, { slot, leafKeys }))
    const notice = message(LeaveNoticeSchema, { publicKey, slot, leafKeys, signature })
    const outcome = await requests.outcome({ case: 'leave', value: message(LeaveRequestSchema, { channelId, notice }) })
    const code = outcome.type === 'refused' ? outcome.error.code : undefined
    const head = outcome.type === 'refused' ? outcome.error.head : undefined
    if (code === 'epoch_mismatch' && head !== undefined && tries < MOST_TRIES) {
      slot = head
      continue
    }
    // If this agent is not on the roster, it has left by an earlier try or was removed.
    if (outcome.type === 'refused' && code !== 'not_found' && code !== 'removed') throw refusalError(outcome.error)
    memberships.drop(membership, undefined)
    await context.journal.written()
    return
  }
}
