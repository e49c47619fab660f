/** The channel of a token, if this agent is already in it. */
import { StaticError, toHex } from '@static/protocol'
import { resumeOf } from '../agent/deliveries.ts'
import { leaveChannel } from '../agent/leaving.ts'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { isLaterStay } from '../channel/log/contradiction.ts'
import type { AgentId, ChannelId } from '../ports/index.ts'
import { refusalError } from '../ports/refusal.ts'
import type { InviteToken } from '../admitting/token.ts'
import type { OpenJoins } from './open-joins.ts'

/**
 * Returns the channel if this agent is a member. It may have been removed while it was offline, so it asks the relay,
 * waiting at most `timeoutMs`. Leaves a broken or abandoned channel first.
 *
 * @throws {StaticError} `channel_exists`, `join_timeout`
 */
export async function heldChannel(
  agent: Pick<AgentServices, 'context' | 'channels' | 'requests'>,
  joins: OpenJoins,
  { name, channelId, owner }: InviteToken,
  timeoutMs: number,
): Promise<AgentChannel | undefined> {
  const held = agent.channels.named(name)
  const known = agent.channels.get(toHex(channelId))
  // The token's creator may pose as the owner of a channel that this agent is a member of.
  if (known && known.name !== name) {
    throw StaticError.of('channel_exists', `This agent is already a member of that channel, as ${known.name}.`)
  }
  // The token's owner may have taken the channel over since this agent last heard of it.
  if (known?.state === 'joined' && !known.failure && !isOwnedBy(known, toHex(owner))) {
    await askRelay(agent, known, timeoutMs)
  }
  // Or someone else has offered a channel with the same id.
  if (known && known.state !== 'offered' && !isOwnedBy(known, toHex(owner))) {
    const text = `This agent is already in a channel ${name} that agent ${known.owner} owns, but the token's channel is owned by`
    throw StaticError.of('channel_exists', `${text} ${toHex(owner)}. Leave channel ${name} first.`)
  }
  if (!held) return undefined
  checkName(agent, name, toHex(channelId))
  if (held.state === 'joined' && !held.failure) await askRelay(agent, held, timeoutMs)
  if (held.failure || held.state === 'leaving' || joins.isAbandoned(held)) {
    try {
      await leaveChannel(agent, held)
      return undefined
    } catch (error) {
      // The leave of another call, which failed because this agent has taken the channel over meanwhile: it stays.
      if (held.owner !== agent.context.agentId || held.failure || joins.isAbandoned(held)) throw error
    }
  }
  return held.state === 'joined' ? held : undefined
}

/** Whether an agent owns a channel, or did when this agent entered it: programs use their token at each start. */
function isOwnedBy({ owner, standing }: AgentChannel, agent: AgentId): boolean {
  return owner === agent || standing.record.enteredUnder === agent
}

/** Processes the entries that the relay has for a channel. The channel ends if this agent is no longer a member. */
async function askRelay(
  { context, requests }: Pick<AgentServices, 'context' | 'requests'>,
  held: AgentChannel,
  timeoutMs: number,
): Promise<void> {
  const late = new AbortController()
  const cancel = context.later(timeoutMs, () => late.abort(noAnswer(timeoutMs)))
  try {
    await held.intake.catchUp(late.signal)
  } catch (error) {
    if (held.failure) return
    if (StaticError.from(error).code !== 'queue_full') throw error
    // The inbox is full, so the entry that would show a removal cannot be processed.
    const aborted = Promise.withResolvers<never>()
    late.signal.addEventListener('abort', () => aborted.reject(late.signal.reason))
    await Promise.race([endIfRemoved(requests, held), aborted.promise])
  } finally {
    cancel()
  }
}

/** Ends a channel if the relay no longer lists this agent as a member, without processing any entries. */
async function endIfRemoved(requests: AgentServices['requests'], held: AgentChannel): Promise<void> {
  await requests.ask(resumeOf([held.channelId]), ({ channels: [state] }) => {
    const code = state?.error?.code
    if (state?.error && code !== 'removed' && code !== 'not_found') throw refusalError(state.error)
    const isOver = !state || state.error || state.removed || isLaterStay(state, held.history.position.index)
    if (isOver) held.over(code === 'not_found' ? code : 'removed')
  })
}

function noAnswer(timeoutMs: number): StaticError {
  const text = `The relay did not answer within ${timeoutMs / 1000} seconds whether this agent is still a member.`
  return StaticError.of('join_timeout', `${text} Use the same token again when it is reachable.`)
}

/**
 * A name stands for one channel. While a join waits for its Welcome, this agent may enter another channel of that name.
 *
 * @throws {StaticError} `channel_exists`
 */
export function checkName({ channels }: Pick<AgentServices, 'channels'>, name: string, id: ChannelId): void {
  const held = channels.named(name)
  if (!held || held.id === id) return
  const text = `This agent is a member of another channel named ${name}. Leave that one first.`
  throw StaticError.of('channel_exists', text)
}
