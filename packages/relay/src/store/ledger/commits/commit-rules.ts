/** The checks of a commit: its slot, its size, its roster changes, and its Welcomes. */
import {
  countedAdds,
  leaveBody,
  MAX_MEMBERS,
  MAX_UNVOUCHED_SIZE,
  MAX_WELCOME_BYTES,
  maxCommitBytes,
  toHex,
} from '@static/protocol'
import type { AgentId, Refusal, SignedDeclaration, StoreRequest, WelcomeFields } from '../../../ports.ts'
import { type Context, refuse } from '../context.ts'
import { type Channel, isVouchedIn, roster } from '../state.ts'

/** Maximum number of Welcomes of one account's channels pending for an agent: anyone can add any agent. */
const MAX_WAITING = 64

/** Checks the sender's bar, the slot and the size. */
export function judgePlace(
  channel: Channel,
  { actor, slot, commit: bytes, declaration, welcomes, groupInfo }: StoreRequest<'commit'>,
): Refusal | undefined {
  if (channel.senders.get(actor.agent)?.barred) {
    return refuse('not_allowed', 'A commit of this agent was rejected. Only the owner can let it commit again.')
  }
  const head = channel.last.slot
  if (slot !== head) return { refused: 'epoch_mismatch', head }
  const size = welcomes.reduce((sum, { welcome }) => sum + welcome.length, bytes.length + groupInfo.length)
  const limit = sizeLimit(channel, actor.agent, declaration.adds.length)
  if (size <= limit) return undefined
  return refuse('too_large', `The commit and its Welcomes have ${size} bytes. The limit is ${limit}.`)
}

/** The largest commit or Welcome that an agent may send in this channel. It grows with the roster. */
export function sizeLimit(channel: Channel, agent: AgentId, adds: number): number {
  const { length } = roster(channel)
  const named = channel.members.size - length + adds
  return maxCommitBytes(length + countedAdds(named, agent === channel.owner))
}

/** Checks whether the actor may make these roster changes. */
export function judgeRoster(
  context: Context,
  channel: Channel,
  actor: AgentId,
  adds: readonly AgentId[],
  removes: readonly AgentId[],
  { declaration, welcomes }: StoreRequest<'commit'>,
): Refusal | undefined {
  if (hasRepeats(adds) || hasRepeats(removes)) return refuse('invalid_request', 'The commit names an agent twice.')
  const noticed = noticedLeavers(context, channel, removes, declaration)
  if (!noticed) return refuse('invalid_request', 'A Leave notice does not belong to an agent that the commit removes.')
  for (const agent of removes) {
    const refusal = judgeRemoval(channel, actor, agent, noticed)
    if (refusal) return refusal
  }
  for (const agent of adds) {
    if (channel.members.has(agent) && !removes.includes(agent)) {
      return refuse('invalid_request', `Agent ${agent} is already in the channel.`)
    }
  }
  const size = channel.members.size - removes.length + adds.length
  if (size > MAX_MEMBERS) return refuse('group_full')
  if (adds.length > 0 && size > MAX_UNVOUCHED_SIZE && !isVouchedIn(channel, actor)) {
    return refuse(
      'group_full',
      `The channel would have ${size} members. Beyond ${MAX_UNVOUCHED_SIZE}, only the owner and members that it has vouched for can add others.`,
    )
  }
  const welcomed = welcomes.map(({ agent }) => agent)
  if (hasRepeats(welcomed) || !welcomed.every((agent) => adds.includes(agent))) {
    return refuse('invalid_request', 'Each Welcome must be for a different agent that the commit adds.')
  }
  return undefined
}

/** Checks the vouches of a commit: only the owner can vouch, and only for agents that the commit adds. */
export function judgeVouches(
  channel: Channel,
  actor: AgentId,
  adds: readonly AgentId[],
  vouches: readonly AgentId[],
): Refusal | undefined {
  if (vouches.length > 0 && actor !== channel.owner) return refuse('invalid_request', 'Only the owner can vouch.')
  if (!hasRepeats(vouches) && vouches.every((agent) => adds.includes(agent))) return undefined
  return refuse('invalid_request', 'A commit can vouch only for agents that it adds, and once for each.')
}

function judgeRemoval(
  channel: Channel,
  actor: AgentId,
  agent: AgentId,
  noticed: ReadonlySet<AgentId>,
): Refusal | undefined {
  const member = channel.members.get(agent)
  if (!member) return refuse('invalid_request', `Agent ${agent} is not in the channel.`)
  if (agent === channel.owner) return refuse('not_allowed', 'The owner cannot be removed.')
  if (member.ended) {
    if (actor === channel.owner || noticed.has(agent)) return undefined
    return refuse('invalid_request', `The Leave notice of agent ${agent} is missing.`)
  }
  if (agent === actor) return refuse('invalid_request', 'An agent cannot remove itself. Use Leave instead.')
  return actor === channel.owner
    ? undefined
    : refuse('not_allowed', 'Only the owner can remove an agent that has not left.')
}

/** The agents whose notices the declaration carries; undefined if one is not the stored notice of a removed agent. */
function noticedLeavers(
  { hash }: Context,
  channel: Channel,
  removes: readonly AgentId[],
  { leaveNotices }: SignedDeclaration,
): Set<AgentId> | undefined {
  const noticed = new Set<AgentId>()
  for (const notice of leaveNotices) {
    const agent = toHex(hash(notice.publicKey))
    const { ended } = channel.members.get(agent) ?? {}
    if (!ended?.pending || !ended.notice || !removes.includes(agent)) return undefined
    if (toHex(leaveBody(notice)) !== toHex(leaveBody(ended.notice))) return undefined
    noticed.add(agent)
  }
  return noticed
}

/**
 * Checks that a GroupInfo comes with Welcomes, the size of each Welcome, and that its agent may get one more from this
 * account.
 */
export function judgeWelcomes(
  { rows }: Context,
  channel: Channel,
  welcomes: readonly WelcomeFields[],
  groupInfo: Uint8Array,
): Refusal | undefined {
  // Nothing would ever delete it.
  if (groupInfo.length > 0 && welcomes.length === 0) {
    return refuse('invalid_request', 'The commit has a `group_info` but no Welcomes that share it.')
  }
  const large = welcomes.find(({ welcome }) => welcome.length + groupInfo.length > MAX_WELCOME_BYTES)
  if (large) {
    const size = large.welcome.length + groupInfo.length
    return refuse(
      'too_large',
      `The Welcome for agent ${large.agent} has ${size} bytes. The limit is ${MAX_WELCOME_BYTES}.`,
    )
  }
  const full = welcomes.find(({ agent }) => rows.welcomes.count(channel, agent) >= MAX_WAITING)
  if (!full) return undefined
  // Not `rate_limited`: the agent may come online at any time, and a sender that retries would block its channel.
  return refuse(
    'not_allowed',
    `Agent ${full.agent} already has ${MAX_WAITING} pending Welcomes from this account's channels, the limit. ` +
      'Add it once it has joined some of these channels, or remove it from some of them.',
  )
}

function hasRepeats(agents: readonly AgentId[]): boolean {
  return new Set(agents).size < agents.length
}

/** Whether a commit only removes agents that have left. */
export function removesOnlyLeavers(channel: Channel, adds: readonly AgentId[], removes: readonly AgentId[]): boolean {
  return adds.length === 0 && removes.length > 0 && removes.every((agent) => channel.members.get(agent)?.ended)
}
