/** Leaving a channel: needs this agent's key and nothing else, so that it works with a broken group, too. */
import { leaveBytes, message, StaticError } from '@static/protocol'
import { LeaveNoticeSchema, LeaveRequestSchema } from '@static/protocol/relay'
import { refusalError } from '../../session/refusal.ts'
import type { Membership } from '../channel/membership.ts'
import type { AgentServices } from './services.ts'

/** What leaving takes. */
type Leaving = Pick<AgentServices, 'context' | 'memberships' | 'requests'>

/** So many notices are signed for one leave: the relay names the head, and could have one signed for every head. */
const MOST_TRIES = 8

/**
 * Leaves. Goes on by itself after a crash or a lost session.
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
    // An agent that is closed goes on leaving when it starts again.
    if (!(error instanceof StaticError && error.code === 'closed')) {
      // Somebody may keep what was signed for later: the next leaf makes it void.
      membership.become(before, true)
      membership.intake.resume()
    }
    throw error
  }
}

/** The rest of it: the signed notice, in the log. */
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
    // Whoever is not on the roster has left, by this request's first try or by being removed.
    if (outcome.type === 'refused' && code !== 'not_found' && code !== 'removed') throw refusalError(outcome.error)
    memberships.drop(membership, undefined)
    await context.journal.written()
    return
  }
}
