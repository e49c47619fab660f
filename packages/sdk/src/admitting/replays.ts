/**
 * Join requests that are void (SPEC.md, 6.3 and 6.5, "Replays"). The relay may show a request again after it was acted
 * on. Acting on it twice would take another use, or remove the member that it brought in. These facts show it:
 *
 * | fact | known to | then |
 * |---|---|---|
 * | the joiner has left since it was added with this KeyPackage (`ListedInvites.hasLeft`) | every member | ignored: it may have asked again |
 * | the joiner has asked with another KeyPackage since (`IssuedInvites.isSpent`) | the owner | ignored |
 * | the joiner has joined with it by an invite of the owner's own (`IssuedInvites.isJoined`) | the owner | ignored; refused if it asks with such an invite and is no longer a member |
 * | the joiner was added with it and is a member | the owner, for its own invites | ignored: the Welcome waits at the relay |
 * | the joiner is a member with a newer KeyPackage (`isOlder`) | the owner, for its own invites | ignored |
 * | the joiner is a member, and the owner need not replace it (`mayReplace`) | every member, for listed invites | ignored |
 * | the joiner was heard since, or was added with another KeyPackage later (`ListedInvites.isReplayed`) | every member, for listed invites | refused |
 *
 * Own invites are those that only the owner may use; listed invites are those that members may use.
 */
import { sha256 } from '#platform/crypto'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { JoinRequest } from '../joining/request.ts'
import { same } from '../platform/bytes.ts'
import type { AgentId, JoinerRecord } from '../ports/index.ts'
import type { Candidate } from './adding.ts'
import type { IssuedInvites } from './issued.ts'

/** How a void request is treated. */
export type Replay = 'ignored' | 'refused'

/** How a request with one of the owner's own invites is treated; undefined if it is not void. */
export function replayToOwner(issued: IssuedInvites, channel: AgentChannel, candidate: Candidate): Replay | undefined {
  const { agent, encryptionKey } = candidate
  if (channel.listedInvites.hasLeft(agent, encryptionKey)) return 'ignored'
  if (issued.isSpent(channel.id, agent, candidate) || isOlder(channel, candidate)) return 'ignored'
  const known = issued.joiner(channel.id, agent)
  if (!known || !isSame(known, candidate) || known.state === 'taken') return undefined
  if (isMember(channel, agent)) return 'ignored'
  return known.state === 'here' ? 'refused' : undefined
}

/**
 * The same for a request with a listed invite. The owner passes the invites it issued: earlier requests of their
 * joiners are void, even if the joiner leaves meanwhile.
 */
export function replayToMember(
  { agentId }: Pick<AgentServices['context'], 'agentId'>,
  channel: AgentChannel,
  candidate: Candidate,
  issued?: Pick<IssuedInvites, 'isSpent' | 'isJoined'>,
): Replay | undefined {
  const { agent, encryptionKey } = candidate
  const { listedInvites } = channel
  if (issued?.isJoined(channel.id, agent, candidate) || issued?.isSpent(channel.id, agent, candidate)) return 'ignored'
  if (isMember(channel, agent) ? !mayReplace(agentId, channel, candidate) : listedInvites.hasLeft(agent, encryptionKey))
    return 'ignored'
  return listedInvites.isReplayed(agent, encryptionKey) ? 'refused' : undefined
}

/** Whether a joiner was recorded with this very request. */
export function isSame({ nonce, keyPackageHash }: JoinerRecord, request: JoinRequest): boolean {
  return same(nonce, request.nonce) && same(keyPackageHash, sha256(request.keyPackage))
}

/** Whether an agent is in the group and has not left. */
export function isMember({ group, roster }: AgentChannel, agent: AgentId): boolean {
  return group?.members.has(agent) === true && roster.notice(agent) === undefined
}

/**
 * Whether an agent that was heard in the channel is there with a KeyPackage that it made later, or has committed since.
 * Then only the relay still has this request, or it was made with another token. The agent has forgotten its
 * KeyPackage, so acting on it would lock the agent out.
 */
function isOlder(channel: AgentChannel, { agent, encryptionKey, madeAt }: Candidate): boolean {
  const leaf = isMember(channel, agent) ? channel.group?.members.get(agent) : undefined
  if (!leaf || same(leaf.encryptionKey, encryptionKey)) return false
  return leaf.madeAt === undefined || (channel.history.hasHeard(agent) && madeAt <= leaf.madeAt)
}

/**
 * Whether this agent, as the owner, adds a member again: if it was never heard and asks with a different KeyPackage, a
 * member added it but did not let it in. Other members may not remove it.
 */
function mayReplace(agentId: AgentId, channel: AgentChannel, { agent, encryptionKey }: Candidate): boolean {
  const leaf = channel.group?.members.get(agent)
  const isNew = leaf !== undefined && !same(leaf.encryptionKey, encryptionKey)
  return channel.owner === agentId && isNew && !channel.history.hasHeard(agent)
}
