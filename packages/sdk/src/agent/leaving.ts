/** Leaving a channel. Needs only this agent's key, so that it works even with a broken group. */
import { leaveBytes, message, StaticError } from '@static/protocol'
import { LeaveNoticeSchema, LeaveRequestSchema } from '@static/protocol/relay'
import { refusalError } from '../ports/refusal.ts'
import { isLaterStay } from '../channel/log/contradiction.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { resumeOf } from './deliveries.ts'
import type { AgentServices } from './services.ts'

type Leaving = Pick<AgentServices, 'context' | 'channels' | 'requests'>

/**
 * The maximum number of notices signed for one leave. The relay reports the head, and could otherwise get a notice for
 * every head.
 */
const MOST_TRIES = 8

/** This agent is not on the roster: it left in an earlier attempt, or was removed. */
const ENDED: ReadonlySet<string> = new Set(['not_found', 'removed'])

/**
 * Leaves a channel. Continues automatically after a crash or a lost session.
 *
 * @throws {StaticError} `not_allowed` for the owner, who deletes the channel instead
 */
export async function leaveChannel(agent: Leaving, channel: AgentChannel): Promise<void> {
  const { agentId, journal, invites } = agent.context
  const before = channel.state
  if (before === 'ended') {
    if (channel.kept.isOn) await channel.kept.erase()
    return agent.channels.drop(channel, undefined)
  }
  if (channel.failure?.code === 'closed') throw channel.failure
  if (channel.owner === agentId) {
    throw StaticError.of('not_allowed', `The owner cannot leave its channel ${channel.name}. Delete it instead.`)
  }
  invites?.leaving(channel.id)
  channel.become('leaving')
  await journal.written()
  try {
    await finishLeaving(agent, channel)
  } catch (error) {
    // A closed agent continues leaving after a restart, and another call may have started this.
    if (before !== 'leaving' && !(error instanceof StaticError && error.code === 'closed')) {
      // The relay may keep the signed notice for later. Replacing the leaf makes it invalid.
      channel.become(before, true)
      channel.intake.resume()
    }
    throw error
  }
}

/** Finishes leaving, or waits for an earlier call to finish: every session calls this, and one answer is enough. */
export async function finishLeaving(agent: Leaving, channel: AgentChannel): Promise<void> {
  const { leaves } = agent.channels
  const leave = leaves.get(channel) ?? sendLeave(agent, channel).finally(() => leaves.delete(channel))
  leaves.set(channel, leave)
  await leave
}

/** Gets the signed notice into the log. */
async function sendLeave(agent: Leaving, channel: AgentChannel): Promise<void> {
  const { channelId } = channel
  const { channels, requests, context } = agent
  const { publicKey } = context.key
  let slot = BigInt(channel.history.position.slot)
  for (let tries = 1; channels.get(channel.id) === channel; tries++) {
    const leafKeys = [...channel.standing.record.leafKeys]
    const signature = context.sign(leaveBytes(channelId, { slot, leafKeys }))
    const notice = message(LeaveNoticeSchema, { publicKey, slot, leafKeys, signature })
    const outcome = await requests.outcome({ case: 'leave', value: message(LeaveRequestSchema, { channelId, notice }) })
    const refusal = outcome.type === 'refused' ? outcome.error : undefined
    if (refusal?.code === 'epoch_mismatch' && refusal.head !== undefined && tries < MOST_TRIES) {
      slot = refusal.head
      // Checked after reading the head: if a later commit adds this agent again, the head is different.
      if (await isMember(agent, channel)) continue
    } else if (refusal && !ENDED.has(refusal.code)) throw refusalError(refusal)
    // In small steps: with the channel, it would all be deleted at once.
    if (channel.kept.isOn) await channel.kept.erase()
    channels.drop(channel, undefined)
    await context.journal.written()
    return
  }
}

/** Whether this agent is still in the same membership. If it was added again since, a Leave would end the later one. */
async function isMember({ requests }: Leaving, { channelId, history }: AgentChannel): Promise<boolean> {
  return await requests.ask(resumeOf([channelId]), ({ channels: [state] }) => {
    if (!state || (state.error && ENDED.has(state.error.code))) return false
    if (state.error) throw refusalError(state.error)
    return !isLaterStay(state, history.position.index)
  })
}
