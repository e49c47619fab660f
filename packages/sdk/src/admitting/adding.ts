/** Adding members: gets their KeyPackages, checks the pins of their identities, and uses as few commits as possible. */
import { ERRORS, fromHex, MAX_MEMBERS, message, shownIdentity, StaticError, toHex } from '@static/protocol'
import { AddMemberRequestSchema } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import type { AgentId } from '../ports/index.ts'
import type { GroupState } from '../channel/group-state.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { Roster } from '../channel/members/roster.ts'
import type { AgentServices } from '../agent/services.ts'

type Adding = Pick<AgentServices, 'context' | 'requests'>

/** The number of KeyPackages requested at once. */
const CLAIMS = 32

interface Candidate {
  readonly keyPackage: Uint8Array
  readonly agentId: AgentId
  readonly identity: Uint8Array
  readonly signatureKey: Uint8Array
}

/**
 * Adds members by KeyPackage or agent id. Returns their Welcomes in the same order.
 *
 * @throws {StaticError} `identity_changed`, `key_package_unavailable`, `group_full`, `invalid_request`
 */
export async function addMembers(
  agent: Adding,
  channel: AgentChannel,
  members: readonly (Uint8Array | AgentId)[],
  acceptNewKey: boolean,
): Promise<Uint8Array[]> {
  const size = channel.group?.members.size ?? 0
  if (size + members.length > MAX_MEMBERS) throw full(channel.name, size, members.length)
  const candidates: Candidate[] = []
  for (let at = 0; at < members.length; at += CLAIMS) {
    const some = members.slice(at, at + CLAIMS)
    candidates.push(...(await Promise.all(some.map((member) => candidate(agent, channel, member)))))
  }
  if (!acceptNewKey) {
    for (const { identity, agentId } of candidates) {
      const known = channel.roster.conflict(identity, agentId)
      if (known !== undefined) throw changed(channel, identity, known, agentId)
    }
  }
  const welcomes = await channel.admissions.inTurn(() => commitUnclaimed(channel, candidates))
  // The first add to a single-member group is complete only after this.
  if (channel.upkeep.isRekeyDue) await channel.upkeep.rekey()
  return candidates.map(({ agentId }) => welcomes.get(agentId) ?? missing())
}

async function candidate(agent: Adding, channel: AgentChannel, member: Uint8Array | AgentId): Promise<Candidate> {
  const byId = typeof member === 'string'
  const keyPackage = byId ? await claim(agent, channel, member) : Uint8Array.from(member)
  const expected = byId ? fromHex(member) : undefined
  const { engine } = agent.context
  const checked = await engine.checkKeyPackage(keyPackage, agent.context.now(), expected)
  const { agentId, identity, signatureKey } = checked
  return { keyPackage, agentId: toHex(agentId), identity, signatureKey }
}

async function claim({ requests }: Adding, { channelId }: AgentChannel, member: AgentId): Promise<Uint8Array> {
  const value = message(AddMemberRequestSchema, { channelId, agentId: fromHex(member) })
  return await requests.ask({ case: 'addMember', value }, ({ keyPackage }) => Uint8Array.from(keyPackage))
}

/** Claims end with their epoch, so another one begins first if this agent was stopped between a claim and its commit. */
async function commitUnclaimed(
  channel: AgentChannel,
  candidates: readonly Candidate[],
): Promise<ReadonlyMap<AgentId, Uint8Array>> {
  const { admissions, upkeep } = channel
  if (candidates.some(({ agentId }) => admissions.claims.mayCount(agentId))) await upkeep.rekey()
  return await commitAll(channel, candidates)
}

/** Splits the candidates into two commits if they do not fit into one. */
async function commitAll(
  channel: AgentChannel,
  candidates: readonly Candidate[],
): Promise<ReadonlyMap<AgentId, Uint8Array>> {
  try {
    const { welcomes } = await channel.committer.commit((group) => ({
      adds: candidates.map(({ keyPackage }) => keyPackage),
      // The owner's application has named them.
      vouches: group.isOwner ? candidates.map(({ agentId }) => fromHex(agentId)) : [],
      ...returning(channel.roster, group, candidates),
    }))
    return new Map(welcomes.map(({ agentId, welcome }) => [toHex(agentId), welcome]))
  } catch (error) {
    if (!(error instanceof StaticError && error.code === 'too_large') || candidates.length < 2) throw error
    const half = Math.ceil(candidates.length / 2)
    const first = await commitAll(channel, candidates.slice(0, half))
    const second = await commitAll(channel, candidates.slice(half))
    return new Map([...first, ...second])
  }
}

/**
 * An agent that returns while its old leaf is still in the tree is removed and added in one commit: with its leave
 * notice or, if the notice names a key that the leaf does not have, by the owner, which needs no notice. The fresh
 * KeyPackage shows that the agent has left.
 */
function returning(
  roster: Roster,
  group: GroupState,
  candidates: readonly Candidate[],
): { removes: Uint8Array[]; leaveNotices: NonNullable<ReturnType<Roster['notice']>>[] } {
  const back = candidates.filter(({ agentId, signatureKey }) => {
    const leaf = group.members.get(agentId)
    return leaf !== undefined && same(leaf.signatureKey, signatureKey)
  })
  const leaveNotices = back.flatMap(({ agentId }) => {
    const notice = roster.notice(agentId)
    if (notice) return [notice]
    if (group.isOwner && roster.isSaidToHaveLeft(agentId)) return []
    throw StaticError.of('invalid_request', `Agent ${agentId} is already a member of the channel.`)
  })
  return { removes: back.map(({ agentId }) => fromHex(agentId)), leaveNotices }
}

function full(name: string, size: number, added: number): StaticError {
  const problem = `Channel ${name} has ${size} members; ${added} more would exceed the limit of ${MAX_MEMBERS}.`
  return StaticError.of('group_full', `${problem} ${ERRORS.group_full.remedy}`)
}

function changed({ group }: AgentChannel, identity: Uint8Array, known: AgentId, now: AgentId): StaticError {
  const shown = shownIdentity(new TextDecoder().decode(identity))
  const problem = `Identity ${shown} is known as agent ${known} and is now agent ${now}.`
  const remedy = group?.members.has(known) === true ? 'Remove that member first.' : ERRORS.identity_changed.remedy
  return StaticError.of('identity_changed', `${problem} ${remedy}`)
}

function missing(): never {
  throw StaticError.of('internal_error', 'A member was added without a Welcome. Please report this bug.')
}
