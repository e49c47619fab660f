/**
 * Adds members with as few commits as possible: by hand (`addMembers`), and agents that ask to join (`addJoiners`,
 * SPEC.md, 6.3). Halving a refused commit finds the joiner that the group refuses, so it keeps out only itself.
 */
import {
  type ErrorCode,
  ERRORS,
  fromHex,
  type LeaveNoticeFields,
  MAX_MEMBERS,
  MAX_UNVOUCHED_SIZE,
  message,
  shownIdentity,
  StaticError,
  toHex,
} from '@static/protocol'
import { AddMemberRequestSchema, type JoinRequest as PolledRequest } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import type { AgentContext } from '../agent/context.ts'
import type { AgentServices } from '../agent/services.ts'
import type { GroupState } from '../channel/group-state.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { Roster } from '../channel/members/roster.ts'
import type { CheckedKeyPackage, CommitChange } from '../mls/index.ts'
import type { AgentId } from '../ports/index.ts'
import { type JoinRequest, openProvingRequest, openRequest } from '../joining/request.ts'
import { type AdmitKeys, type JoinPlace, welcomeTag } from './keys.ts'

// ---- By hand ----

type Adding = Pick<AgentServices, 'context' | 'requests'>

/** The number of KeyPackages requested at once. */
const REQUESTED_AT_ONCE = 32

/** An agent named by the application. */
interface NewMember {
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
  { acceptNewKey, require }: { readonly acceptNewKey: boolean; readonly require?: string | undefined },
): Promise<Uint8Array[]> {
  if (require !== undefined && channel.owner !== agent.context.agentId)
    throw StaticError.of('not_allowed', `Only the owner of channel ${channel.name} can demand proofs (\`require\`).`)
  const size = channel.group?.members.size ?? 0
  if (size + members.length > MAX_MEMBERS) throw full(channel.name, size, members.length)
  const newMembers: NewMember[] = []
  for (let at = 0; at < members.length; at += REQUESTED_AT_ONCE) {
    const some = members.slice(at, at + REQUESTED_AT_ONCE)
    newMembers.push(...(await Promise.all(some.map((member) => newMember(agent, channel, member)))))
  }
  if (!acceptNewKey) {
    for (const { identity, agentId } of newMembers) {
      const known = channel.roster.conflict(identity, agentId)
      if (known !== undefined) throw changed(channel, identity, known, agentId)
    }
  }
  if (require !== undefined) {
    // A call that must fail demands nothing of a member.
    if (channel.group) returning(channel.roster, channel.group, newMembers)
    // On disk before the commit: a crash must not let in a member of which nothing is demanded.
    for (const { agentId } of newMembers) channel.proving.demand(agentId, require)
  }
  const welcomes = await channel.listedInvites.inTurn(() => commitUnclaimed(channel, newMembers))
  // The first add to a single-member group is not complete until this.
  if (channel.upkeep.isRekeyDue) await channel.upkeep.rekey()
  return newMembers.map(({ agentId }) => welcomes.get(agentId) ?? missing())
}

async function newMember(agent: Adding, channel: AgentChannel, member: Uint8Array | AgentId): Promise<NewMember> {
  const byId = typeof member === 'string'
  const keyPackage = byId ? await requestKeyPackage(agent, channel, member) : Uint8Array.from(member)
  const expected = byId ? fromHex(member) : undefined
  const { engine } = agent.context
  const checked = await engine.checkKeyPackage(keyPackage, agent.context.now(), expected)
  const { agentId, identity, signatureKey } = checked
  return { keyPackage, agentId: toHex(agentId), identity, signatureKey }
}

async function requestKeyPackage(
  { requests }: Adding,
  { channelId }: AgentChannel,
  member: AgentId,
): Promise<Uint8Array> {
  const value = message(AddMemberRequestSchema, { channelId, agentId: fromHex(member) })
  return await requests.ask({ case: 'addMember', value }, ({ keyPackage }) => Uint8Array.from(keyPackage))
}

/** Claims end with their epoch. If this agent stopped between a claim and its commit, a new epoch begins first. */
async function commitUnclaimed(
  channel: AgentChannel,
  newMembers: readonly NewMember[],
): Promise<ReadonlyMap<AgentId, Uint8Array>> {
  const { listedInvites, upkeep } = channel
  if (newMembers.some(({ agentId }) => listedInvites.claims.mayCount(agentId))) await upkeep.rekey()
  return await commitNewMembers(channel, newMembers)
}

/** Makes one commit, or two if one cannot hold them all. */
async function commitNewMembers(
  channel: AgentChannel,
  newMembers: readonly NewMember[],
): Promise<ReadonlyMap<AgentId, Uint8Array>> {
  try {
    await removeReturningStandby(channel, newMembers, (group, back) => returning(channel.roster, group, [back]))
    const { welcomes } = await channel.committer.commit((group) => ({
      adds: newMembers.map(({ keyPackage }) => keyPackage),
      // The owner's application has named these agents.
      vouches: group.isOwner ? newMembers.map(({ agentId }) => fromHex(agentId)) : [],
      ...returning(channel.roster, group, newMembers),
    }))
    return new Map(welcomes.map(({ agentId, welcome }) => [toHex(agentId), welcome]))
  } catch (error) {
    if (!(error instanceof StaticError && error.code === 'too_large') || newMembers.length < 2) throw error
    const half = Math.ceil(newMembers.length / 2)
    const first = await commitNewMembers(channel, newMembers.slice(0, half))
    const second = await commitNewMembers(channel, newMembers.slice(half))
    return new Map([...first, ...second])
  }
}

/** No commit replaces the standby in one step (SPEC.md, 4.3), so one that returns is removed first. */
async function removeReturningStandby<Returning extends Pick<NewMember, 'signatureKey'>>(
  { committer, standby }: AgentChannel,
  returning: readonly Returning[],
  changeFor: (group: GroupState, back: Returning) => Omit<CommitChange, 'now'> | undefined,
): Promise<void> {
  if (!standby) return
  await committer.commit((group) => {
    const { context } = group.facts
    const leaf = context.standby && group.members.get(toHex(context.standby))
    const back = leaf && returning.find(({ signatureKey }) => same(signatureKey, leaf.signatureKey))
    return back && changeFor(group, back)
  })
}

/**
 * An agent that returns while its old leaf is still in the tree is removed and added in one commit. This needs its
 * leave notice, unless the notice names a key that the leaf does not have and this agent is the owner. The fresh
 * KeyPackage shows that the agent has left.
 */
function returning(
  roster: Roster,
  group: GroupState,
  newMembers: readonly NewMember[],
): { removes: Uint8Array[]; leaveNotices: NonNullable<ReturnType<Roster['notice']>>[] } {
  const back = newMembers.filter(({ agentId, signatureKey }) => {
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

// ---- Those who ask to join ----

/** Transient errors: the request stays at the relay, which returns it with a later poll. */
export const TRANSIENT: ReadonlySet<ErrorCode> = new Set([
  'quota_exceeded',
  'queue_full',
  'rate_limited',
  'unavailable',
] satisfies ErrorCode[])

/** The transient errors that a single joiner can cause, for example with too many pending Welcomes. */
const DEFERRED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'unavailable'] satisfies ErrorCode[])
/** How long the relay may defer part of a commit that it has already deferred for too long. */
const PART_WAIT_MS = 5000
/** The number of such parts that may fail. The rest wait for the joiners' next requests. */
const MOST_DEFERRED = 16

/** An agent that asks to join, with everything known about it. */
export interface Candidate extends CheckedKeyPackage, JoinRequest {
  readonly agent: AgentId
  readonly keys: AdmitKeys
  readonly request: PolledRequest
}

/** The rules for one batch. */
export interface Decision<Asking extends Candidate> {
  /**
   * Whether a candidate is still to be added, alongside `others` and on top of the group as it is when the commit is
   * made. Throws the reason if not.
   */
  isDue(each: Asking, group: GroupState, others: readonly Asking[]): boolean
  /** A candidate was not added. */
  failed(each: Asking, error: unknown): Promise<void>
  /** The data recorded with the commit. */
  joiners(chosen: readonly Asking[]): readonly string[]
  /** The notice of a candidate that has left but is still in the tree. */
  noticeOf(agent: AgentId): LeaveNoticeFields | undefined
  /** Whether the owner vouches for a candidate. Always false for other members. */
  isVouched(each: Asking): boolean
  /** The members whose place a candidate takes. */
  replacedBy(each: Asking): readonly AgentId[]
}

/**
 * Checks a request: its box, its tag and its KeyPackage. `boxSecret` opens the boxes of an invite that asks for proofs.
 *
 * @throws {StaticError} `invite_invalid`, or the fault of the KeyPackage
 */
export async function checkRequest(
  context: Pick<AgentContext, 'engine' | 'now'>,
  place: JoinPlace,
  keys: AdmitKeys,
  request: PolledRequest,
  boxSecret?: Uint8Array,
): Promise<Candidate> {
  const { agentId, box } = request
  const opened = boxSecret
    ? await openProvingRequest(context.engine, { keys, place, agentId }, boxSecret, box)
    : openRequest(keys, place, box)
  if (!opened) throw StaticError.of('invite_invalid')
  const checked = await context.engine.checkKeyPackage(opened.keyPackage, context.now(), agentId)
  return { ...checked, ...opened, agent: toHex(checked.agentId), keys, request }
}

/**
 * Adds joiners by one commit, with a Welcome each. If the group or the relay refuses it as a whole, it is retried in
 * halves. `deferrals` counts the commits so far that the relay has deferred for too long.
 */
export async function addJoiners<Asking extends Candidate>(
  channel: AgentChannel,
  candidates: readonly Asking[],
  decision: Decision<Asking>,
  deferrals: { count: number } = { count: 0 },
): Promise<void> {
  const faults = new Map<Asking, unknown>()
  let chosen: readonly Asking[] = []
  const choose = (group: GroupState): Omit<CommitChange, 'now'> | undefined => {
    faults.clear()
    const due: Asking[] = []
    for (const each of candidates) {
      try {
        if (decision.isDue(each, group, due)) due.push(each)
      } catch (error) {
        faults.set(each, error)
      }
    }
    chosen = due
    return chosen.length === 0 ? undefined : changeFor(group, chosen, decision)
  }
  try {
    await removeReturningStandby(channel, candidates, (group, back) => {
      if (!isDue(decision, group, back)) return undefined
      return { removes: [back.agentId], leaveNotices: [decision.noticeOf(back.agent) ?? []].flat() }
    })
    const byAgent = new Map(candidates.map((each) => [each.agent, each]))
    await channel.committer.commit(choose, {
      tags: (agentId, welcome, epochAuthenticator) => {
        const each = byAgent.get(toHex(agentId))
        if (!each) return undefined
        const { keys } = each
        return { inviteId: keys.inviteId, tag: welcomeTag(keys, each.keyPackage, welcome, epochAuthenticator) }
      },
      joiners: () => decision.joiners(chosen),
      ...(deferrals.count > 0 && { maxWaitMs: PART_WAIT_MS }),
    })
    for (const [each, error] of faults) await decision.failed(each, error)
  } catch (error) {
    const { code } = StaticError.from(error)
    if (code === 'closed') throw error
    const maySplit = DEFERRED.has(code) ? ++deferrals.count <= MOST_DEFERRED : !TRANSIENT.has(code)
    // The relay accepts no more adds by a member without a vouch, so it would refuse a smaller commit as well.
    const { group } = channel
    const isFull = code === 'group_full' && group?.isOwner !== true && (group?.members.size ?? 0) >= MAX_UNVOUCHED_SIZE
    if (candidates.length === 1 || !maySplit || isFull) {
      await Promise.all(candidates.map((each) => decision.failed(each, error)))
      return
    }
    const half = Math.ceil(candidates.length / 2)
    await addJoiners(channel, candidates.slice(0, half), decision, deferrals)
    await addJoiners(channel, candidates.slice(half), decision, deferrals)
  }
}

function isDue<Asking extends Candidate>(decision: Decision<Asking>, group: GroupState, each: Asking): boolean {
  try {
    return decision.isDue(each, group, [])
  } catch {
    return false
  }
}

/** An agent that lost its state returns with the same key, so it is removed and added in one commit. */
function changeFor<Asking extends Candidate>(
  group: GroupState,
  candidates: readonly Asking[],
  decision: Decision<Asking>,
): Omit<CommitChange, 'now'> {
  const back = candidates.filter(({ agent, signatureKey }) => {
    const leaf = group.members.get(agent)
    return leaf !== undefined && same(leaf.signatureKey, signatureKey)
  })
  const replaced = candidates.flatMap((each) => decision.replacedBy(each))
  return {
    adds: candidates.map(({ keyPackage }) => keyPackage),
    invited: candidates.map(({ agentId, keys: { inviteId, seal } }) => ({ agentId, inviteId, seal })),
    removes: [...new Set([...back.map(({ agent }) => agent), ...replaced])].map(fromHex),
    leaveNotices: back.flatMap(({ agent }) => decision.noticeOf(agent) ?? []),
    vouches: candidates.filter((each) => decision.isVouched(each)).map(({ agentId }) => agentId),
  }
}
