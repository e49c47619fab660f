/** The channel of a token, if this agent is already in it. */
import { StaticError, toHex } from '@static/protocol'
import { leaveChannel } from '../core/agent/leaving.ts'
import type { AgentServices } from '../core/agent/services.ts'
import type { Membership } from '../core/channel/membership.ts'
import type { ChannelId } from '../ports.ts'
import type { InviteToken } from './token.ts'

/**
 * Returns the channel if this agent is a member. A broken one is left first, and so is one that is abandoned.
 *
 * @throws {StaticError} `channel_exists`
 */
export async function heldChannel(
  agent: Pick<AgentServices, 'context' | 'memberships' | 'requests'>,
  { name, channelId, owner }: InviteToken,
  isAbandoned: (held: Membership) => boolean,
): Promise<Membership | undefined> {
  const held = agent.memberships.named(name)
  const known = agent.memberships.get(toHex(channelId))
  // The token's creator poses as the owner of a channel that this agent is a member of.
  if (known && known.name !== name) {
    throw StaticError.of('channel_exists', `This agent is already a member of that channel, as ${known.name}.`)
  }
  // Or somebody else has offered a channel with the same id.
  if (known && known.state !== 'offered' && known.owner !== toHex(owner)) {
    const text = `This agent is already in a channel ${name} that agent ${known.owner} owns, but the owner of the token's is`
    throw StaticError.of('channel_exists', `${text} ${toHex(owner)}. Leave that channel first.`)
  }
  if (!held) return undefined
  checkName(agent, name, toHex(channelId))
  if (held.failure || held.state === 'leaving' || isAbandoned(held)) {
    await leaveChannel(agent, held)
    return undefined
  }
  return held.state === 'joined' ? held : undefined
}

/**
 * A name means one channel. While a join waits for its Welcome, this agent may get another of that name.
 *
 * @throws {StaticError} `channel_exists`
 */
export function checkName({ memberships }: Pick<AgentServices, 'memberships'>, name: string, id: ChannelId): void {
  const held = memberships.named(name)
  if (!held || held.id === id) return
  const text = `This agent is a member of another channel named ${name}. Leave that one first.`
  throw StaticError.of('channel_exists', text)
}
