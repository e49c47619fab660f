/**
 * Calls for a channel's owner: remove a member, vouch for one, declare a commit invalid, let a member commit again,
 * reset the relay's roster, delete the channel.
 */
import { fromHex, message, rosterBytes, StaticError, vouchBytes } from '@static/protocol'
import {
  DeleteChannelRequestSchema,
  LiftBarRequestSchema,
  PositionSchema,
  RejectCommitRequestSchema,
  ResetRosterRequestSchema,
  VouchRequestSchema,
} from '@static/protocol/relay'
import type { AgentId, PositionRecord, RequestBody } from '../ports/index.ts'
import { refusalError } from '../ports/refusal.ts'
import type { GroupState } from '../channel/group-state.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AgentContext } from './context.ts'
import type { AgentServices } from './services.ts'

type Owning = Pick<AgentServices, 'context' | 'requests'>

/** Others may commit meanwhile. Then the statement is signed again for the new head. */
const MAX_TRIES = 8

/**
 * Removes a member, even if it or another one has seen a different history or has filled the inbox. The owner decides
 * who is a member, and a hostile member could do either in order to stay.
 *
 * @throws {StaticError} `not_allowed`, `not_found`, `queue_full`
 */
export async function removeMember(
  { invites }: Pick<AgentContext, 'invites'>,
  channel: AgentChannel,
  agent: AgentId,
): Promise<void> {
  await channel.intake.receiveForRemoval(async () => {
    const done = await invites?.removing(channel.id, agent)
    try {
      await channel.committer.commit(() => ({ removes: [fromHex(agent)] }), { isRemoval: true })
    } finally {
      done?.()
    }
  })
}

/**
 * Vouches for a member: at the relay, then on disk.
 *
 * @throws {StaticError} `not_allowed` for anyone but the owner, `not_found` for an agent that is not a member, and as
 * `resetRoster`
 */
export async function vouch(agent: Owning, channel: AgentChannel, member: AgentId): Promise<void> {
  const { channelId, receipts, roster } = channel
  let since = 0
  await sendSigned(agent, channel, 'vouch for members', (group, { slot }) => {
    if (!group.members.has(member)) throw StaticError.of('not_found', `Agent ${member} is not a member of the channel.`)
    since = receipts.memberSince(member)
    const place = { channelId, slot: BigInt(slot), agentIds: [fromHex(member)] }
    const signature = agent.context.sign(vouchBytes(place))
    return { case: 'vouch', value: message(VouchRequestSchema, { ...place, signature }) }
  })
  receipts.vouched(member, since)
  if (receipts.isVouched(member)) roster.pin(member)
  await agent.context.journal.written()
}

/**
 * Resets the relay's roster to the members of the group, after skipped commits made them differ. The statement is
 * signed for this agent's position in the log, and lists the members it has vouched for.
 *
 * @throws {StaticError} `not_allowed` for anyone but the owner, `epoch_mismatch` while others keep committing, or the
 *   error that ended or forked the channel, because then this agent does not know the members
 */
export async function resetRoster(agent: Owning, channel: AgentChannel): Promise<void> {
  const { channelId, receipts } = channel
  await sendSigned(agent, channel, 'reset its roster', (group, { index, hash, slot }) => {
    const position = { index: BigInt(index), hash, slot: BigInt(slot) }
    const agents = [...group.members.keys()]
    const agentIds = agents.map(fromHex)
    const vouched = agents.filter((member) => receipts.isVouched(member)).map(fromHex)
    const signature = agent.context.sign(rosterBytes({ channelId, ...position, agentIds, vouched }))
    const signed = { channelId, position: message(PositionSchema, position), agentIds, vouched, signature }
    return { case: 'resetRoster', value: message(ResetRosterRequestSchema, signed) }
  })
}

/** Declares a commit invalid. */
export async function rejectCommit(
  { requests }: Pick<AgentServices, 'requests'>,
  { channelId }: AgentChannel,
  slot: number,
): Promise<void> {
  const value = message(RejectCommitRequestSchema, { channelId, slot: BigInt(slot) })
  await requests.ask({ case: 'rejectCommit', value }, () => {})
}

/** Lets a member commit again. */
export async function liftBar(
  { requests }: Pick<AgentServices, 'requests'>,
  { channelId }: AgentChannel,
  member: AgentId,
): Promise<void> {
  const value = message(LiftBarRequestSchema, { channelId, agentId: fromHex(member) })
  await requests.ask({ case: 'liftBar', value }, () => {})
}

/** Deletes a channel for all members. */
export async function deleteChannel(
  { requests, channels, context }: Pick<AgentServices, 'requests' | 'channels' | 'context'>,
  channel: AgentChannel,
): Promise<void> {
  const value = message(DeleteChannelRequestSchema, { channel: { case: 'channelId', value: channel.channelId } })
  await requests.ask({ case: 'deleteChannel', value }, () =>
    channels.drop(channel, StaticError.of('not_found', `Channel ${channel.name} was deleted.`)),
  )
  await context.journal.written()
}

/** Sends the relay a statement signed for the head, as the owner after following the log to its end. */
async function sendSigned(
  { context, requests }: Owning,
  channel: AgentChannel,
  purpose: string,
  make: (group: GroupState, position: PositionRecord) => RequestBody,
): Promise<void> {
  if (channel.owner !== context.agentId) {
    throw StaticError.of(
      'not_allowed',
      `Channel ${channel.name} belongs to agent ${channel.owner}. Only its owner can ${purpose}.`,
    )
  }
  for (let tries = 1; ; tries++) {
    const refusal = channel.committer.refusal
    if (refusal) throw refusal
    await channel.intake.catchUp()
    const { group, history } = channel
    if (!group) throw channel.failure ?? StaticError.of('closed', `Channel ${channel.name} is closed.`)
    const outcome = await requests.outcome(make(group, history.position))
    if (outcome.type !== 'refused') return
    if (outcome.error.code !== 'epoch_mismatch' || tries >= MAX_TRIES) throw refusalError(outcome.error)
  }
}
