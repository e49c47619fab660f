/**
 * The owner of a channel, and the standby that may take it over (SPEC.md, 4.3 and 5.3). The owner names a standby; the
 * standby makes itself the owner, at any time. A transfer is an offer to it: no one has to pay for a channel unasked.
 */
import { fromHex, StaticError, toHex } from '@static/protocol'
import type { AgentChannel } from '../channel/channel.ts'
import type { GroupState } from '../channel/group-state.ts'
import type { Ownership } from '../mls/index.ts'
import type { AgentId } from '../ports/index.ts'

/**
 * As the owner: names the member that may take the channel over, or none; with `offered`, asks it to. Resolves when every
 * member will follow.
 *
 * @throws {StaticError} `not_allowed` for anyone but the owner, or if the owner has not vouched for the member or it has
 * no account; `not_found` for an agent that is not a member
 */
export async function nameStandby(
  channel: AgentChannel,
  standby: AgentId | undefined,
  offered: boolean,
): Promise<void> {
  await channel.committer.commit((group) => {
    const { owner } = group.facts.context
    if (!group.isOwner) throw notOwner(channel, owner)
    if (standby !== undefined && !group.members.has(standby)) {
      throw StaticError.of('not_found', `Agent ${standby} is not a member of channel ${channel.name}. Add it first.`)
    }
    if (standby === toHex(owner)) {
      throw StaticError.of('invalid_request', 'This agent owns the channel: name another member as its standby.')
    }
    if (standby === undefined && group.facts.context.standby === undefined) return undefined
    // Also if it is the standby already: the relay may have dropped it from its roster, and from its standing, meanwhile.
    return { ownership: { owner, standby: standby === undefined ? undefined : fromHex(standby), offered } }
  })
}

/**
 * As the standby: makes this agent the owner. Its account pays for the channel from then on.
 *
 * @throws {StaticError} `not_allowed` for any other agent, `api_key_required`, `channel_exists` and `queue_full` if the
 * account has another channel of that name or no room for this one
 */
export async function takeOver(channel: AgentChannel): Promise<void> {
  await channel.committer.commit((group) => {
    // By an earlier call, perhaps before a crash.
    if (group.isOwner) return undefined
    const { own, context } = group.facts
    if (!isStandby(group)) throw notStandby(channel, context)
    return { ownership: { owner: own.agentId, standby: undefined, offered: false } }
  })
}

function isStandby({ facts: { own, context } }: GroupState): boolean {
  return context.standby !== undefined && toHex(context.standby) === toHex(own.agentId)
}

function notOwner({ name }: AgentChannel, owner: Uint8Array): StaticError {
  const text = `Channel ${name} belongs to agent ${toHex(owner)}. Only its owner can name a standby or hand it over.`
  return StaticError.of('not_allowed', text)
}

function notStandby({ name }: AgentChannel, { owner, standby }: Ownership): StaticError {
  const who = standby === undefined ? 'Nobody is' : `Agent ${toHex(standby)} is`
  const text = `This agent is not the standby of channel ${name}, so it cannot take it over. ${who}.`
  return StaticError.of('not_allowed', `${text} Its owner, agent ${toHex(owner)}, names the standby.`)
}
