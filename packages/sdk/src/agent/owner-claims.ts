/** What the owner of a channel signs about its members for the relay: for whom it vouches, and who is in the group. */
import { fromHex, message, rosterBytes, StaticError, vouchBytes } from '@static/protocol'
import { PositionSchema, ResetRosterRequestSchema, VouchRequestSchema } from '@static/protocol/relay'
import type { AgentId, PositionRecord, RequestBody } from '../ports/index.ts'
import { refusalError } from '../ports/refusal.ts'
import type { GroupState } from '../channel/group-state.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AgentServices } from './services.ts'

type Claiming = Pick<AgentServices, 'context' | 'requests'>

/** Others may commit meanwhile. The claim is then signed again for the next head. */
const MAX_TRIES = 8

/**
 * Vouches for a member: at the relay, then on disk.
 *
 * @throws {StaticError} `not_allowed` for anyone but the owner, `not_found` for an agent that is not a member, and as
 * `resetRoster`
 */
export async function vouch(agent: Claiming, channel: AgentChannel, member: AgentId): Promise<void> {
  const { channelId, receipts } = channel
  let since = 0
  await claim(agent, channel, 'vouch for members', (group, { slot }) => {
    if (!group.members.has(member)) throw StaticError.of('not_found', `Agent ${member} is not a member of the channel.`)
    since = receipts.memberSince(member)
    const place = { channelId, slot: BigInt(slot), agentIds: [fromHex(member)] }
    const signature = agent.context.sign(vouchBytes(place))
    return { case: 'vouch', value: message(VouchRequestSchema, { ...place, signature }) }
  })
  receipts.vouched(member, since)
  await agent.context.journal.written()
}

/**
 * Resets the relay's roster to the members of the group, after skipped commits have made it differ. Signed for this
 * agent's position in the log, with those that it has vouched for.
 *
 * @throws {StaticError} `not_allowed` for anyone but the owner, `epoch_mismatch` while others keep committing, or the
 * error that ended or forked the channel, because this agent does not know the members then
 */
export async function resetRoster(agent: Claiming, channel: AgentChannel): Promise<void> {
  const { channelId, receipts } = channel
  await claim(agent, channel, 'reset its roster', (group, { index, hash, slot }) => {
    const position = { index: BigInt(index), hash, slot: BigInt(slot) }
    const agents = [...group.members.keys()]
    const agentIds = agents.map(fromHex)
    const vouched = agents.filter((member) => receipts.isVouched(member)).map(fromHex)
    const signature = agent.context.sign(rosterBytes({ channelId, ...position, agentIds, vouched }))
    const claimed = { channelId, position: message(PositionSchema, position), agentIds, vouched, signature }
    return { case: 'resetRoster', value: message(ResetRosterRequestSchema, claimed) }
  })
}

/** Sends the relay a claim that is signed for the head, as the owner that has followed the log to its end. */
async function claim(
  { context, requests }: Claiming,
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
