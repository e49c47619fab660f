/**
 * Admits the joiners of one poll, or answers why not. For invites that only the owner may use, `admitAsOwner` takes the
 * uses from the count on disk (SPEC.md, 6.3). For invites that members may use, `admitAsMember` claims the joiners
 * first, as the owner or as any member with an account (SPEC.md, 6.5). Both add them by one commit (`addJoiners`).
 */
import { sha256 } from '#platform/crypto'
import { fromHex, JOIN_REFUSALS, MAX_MEMBERS, message, StaticError, toHex } from '@static/protocol'
import { AnswerJoinRequestSchema, type JoinRequest as PolledRequest } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AgentId } from '../ports/index.ts'
import { type CheckedProof, isSameSubject } from '../proofs/verdict.ts'
import { addJoiners, type Candidate, checkRequest, TRANSIENT } from './adding.ts'
import { MOST_CLAIMED } from './claims.ts'
import { type Invite, type IssuedInvites, unlessRefused } from './issued.ts'
import { admitKeys, type JoinPlace } from './keys.ts'
import { isMember, isSame, replayToMember, replayToOwner } from './replays.ts'
import { checkJoiner, replacedBy, stillProven } from './requiring.ts'

/** Members other than the owner wait for this long plus a random share of the spread, so that usually only one acts. */
const DELAY_MS = 500
const DELAY_SPREAD_MS = 2500
/** How many slots may be lost to other commits before the rest is left to other members, or to a later poll. */
const MOST_TRIES = 64

/** An agent that is not admitted, and why. */
export interface RefusedJoiner {
  readonly request: PolledRequest
  readonly error: unknown
}

// ---- By invites that only the owner may use ----

/** An agent that asks with an invite that only the owner may use. */
interface OwnerCandidate extends Candidate {
  readonly invite: Invite
  /** The verdict on its proof, if the invite asks for one. */
  readonly proven: CheckedProof | undefined
}

/**
 * Admits the senders of requests, or answers why not.
 *
 * @throws {StaticError} `closed`
 */
export async function admitAsOwner(
  agent: Pick<AgentServices, 'context' | 'requests'>,
  issued: IssuedInvites,
  channel: AgentChannel,
  requests: readonly PolledRequest[],
): Promise<void> {
  const refused: RefusedJoiner[] = []
  const candidates = await checkAsOwner(agent.context, issued, channel, requests, refused)
  const taken = takeUses(issued, channel, candidates, refused)
  if (taken.length > 0) {
    await agent.context.journal.written()
    await channel.listedInvites.inTurn(() => addAsOwner(issued, channel, taken, refused))
    if (channel.upkeep.isRekeyDue) await unlessRefused(channel.upkeep.rekey())
  }
  await Promise.all(refused.map(({ request, error }) => answerJoin(agent, request, error)))
}

/** The candidates whose requests are valid. Changes nothing. */
async function checkAsOwner(
  context: AgentServices['context'],
  issued: IssuedInvites,
  channel: AgentChannel,
  requests: readonly PolledRequest[],
  refused: RefusedJoiner[],
): Promise<OwnerCandidate[]> {
  const candidates: OwnerCandidate[] = []
  for (const request of requests) {
    try {
      const invite = issued.get(toHex(request.inviteId))
      if (!invite || invite.record.channel !== channel.id) throw StaticError.of('invite_invalid')
      issued.checkAlive(invite.record.id)
      const { boxSecret } = invite.record
      const candidate = await checkRequest(context, joinPlaceOf(channel), invite.keys, request, boxSecret)
      // It may be a member by now: a proof that has ended since must not refuse it.
      if (replayToOwner(issued, channel, candidate) === 'ignored') continue
      candidates.push({ ...candidate, invite, proven: await provenOf(context, issued, channel, invite, candidate) })
    } catch (error) {
      refused.push({ request, error })
    }
  }
  return candidates
}

/**
 * The verdict on the proof of a candidate. One that a use was taken for was checked before this agent stopped, perhaps
 * long ago: if its issuer has revoked it since, it is checked like any other.
 */
async function provenOf(
  context: AgentServices['context'],
  issued: IssuedInvites,
  channel: AgentChannel,
  { record: { id, require } }: Invite,
  candidate: Candidate,
): Promise<CheckedProof | undefined> {
  if (require === undefined) return undefined
  const known = issued.joiner(channel.id, candidate.agent)
  const isKnown = known?.verdict !== undefined && known.invite === id && isSame(known, candidate)
  const earlier = isKnown ? stillProven(context, known.verdict) : undefined
  if (earlier) return earlier
  try {
    return await checkJoiner(context, channel, require, candidate, fromHex(context.agentId))
  } catch (error) {
    const { code, message: reason } = StaticError.from(error)
    const { agent } = candidate
    if (code === 'proof_required')
      context.emit({ type: 'join_refused', channel: channel.name, agent, invite: id, reason })
    throw error
  }
}

/**
 * Takes a use for each agent not in the channel yet, in one synchronous step, so that no other change comes in between.
 */
function takeUses(
  issued: IssuedInvites,
  channel: AgentChannel,
  candidates: readonly OwnerCandidate[],
  refused: RefusedJoiner[],
): OwnerCandidate[] {
  const taken = new Map<AgentId, OwnerCandidate>()
  const identities = new Set<string>()
  for (const candidate of candidates) {
    const { agent, invite, request, proven } = candidate
    // It asks with two invites, and is added once.
    if (taken.has(agent)) continue
    const replay = replayToOwner(issued, channel, candidate)
    if (replay === 'ignored') continue
    // Both would take the same place: this one takes that of the other, with a later poll.
    const isTwin =
      invite.record.replaces === true && [...taken.values()].some((one) => isSameSubject(one.proven, proven))
    if (isTwin) continue
    try {
      if (replay === 'refused') throw StaticError.of('invite_invalid')
      const identity = toHex(candidate.identity)
      if (identities.has(identity)) throw StaticError.of('identity_changed')
      const known = issued.joiner(channel.id, agent)
      const isAgain = known?.state === 'taken' && isSame(known, candidate)
      const hasUse = isAgain && known.invite === invite.record.id
      const replaced = replacedBy(channel, invite, candidate, proven)
      const verdict = proven && JSON.stringify(proven)
      if (!hasUse) issued.takeUse(channel, invite, candidate, candidate, { others: taken.size, replaced, verdict })
      identities.add(identity)
      taken.set(agent, candidate)
    } catch (error) {
      refused.push({ request, error })
    }
  }
  return [...taken.values()]
}

/** Adds the candidates for which a use was taken, and returns the use of each that cannot be added. */
async function addAsOwner(
  issued: IssuedInvites,
  channel: AgentChannel,
  candidates: readonly OwnerCandidate[],
  refused: RefusedJoiner[],
): Promise<void> {
  const { listedInvites, upkeep } = channel
  const { claims } = listedInvites
  // If this agent claimed one with an invite for members and could not add it, the commit would count as a use of that
  // invite.
  const isClaimed = candidates.some((each) => claims.mayCount(each.agent))
  if (isClaimed && claims.mayEnd()) await unlessRefused(upkeep.rekey())
  const isTaken = ({ agent }: Candidate): boolean => issued.joiner(channel.id, agent)?.state === 'taken'
  await addJoiners(channel, candidates, {
    isDue: (each) => {
      // Its commit was pending when this agent stopped, and has been accepted since.
      if (!isTaken(each)) return false
      if (listedInvites.hasLeft(each.agent, each.encryptionKey)) throw StaticError.of('invite_invalid')
      issued.checkAlive(each.invite.record.id)
      // No other epoch has begun, so it is retried.
      if (claims.mayCount(each.agent)) throw StaticError.of('unavailable')
      return true
    },
    failed: async (each, error) => {
      if (isTaken(each)) await issued.returnUseOf(channel.id, each.agent)
      // Not if it has left: it may have asked again since.
      if (!listedInvites.hasLeft(each.agent, each.encryptionKey)) refused.push({ request: each.request, error })
    },
    joiners: (chosen) => chosen.map(({ agent, keyPackage }) => `${agent} ${toHex(sha256(keyPackage))}`),
    noticeOf: () => undefined,
    // The owner gave a single-use token to this agent alone.
    isVouched: (each) => each.invite.record.maxUses === 1 || staysVouched(channel, each),
    replacedBy: (each) => replacedBy(channel, each.invite, each, each.proven),
  })
}

// ---- By invites that members may use ----

/** An agent that asks with an invite that members may use. */
interface MembersCandidate extends Candidate {
  /** Invite id, hexadecimal. */
  readonly invite: string
}

/**
 * Admits the senders of requests that arrived together, unless another member does. The owner acts at once, others
 * after a random delay, and all leave a joiner to the member that claimed it. Slots order the commits: a member that
 * loses one looks at the group again, and claims again what is left to do. Returns those that can never be admitted:
 * only the owner answers them. The owner passes the invites it issued, and ignores agents that it added with others of
 * them.
 *
 * @throws {StaticError} `closed`
 */
export async function admitAsMember(
  agent: Pick<AgentServices, 'context' | 'timers'>,
  channel: AgentChannel,
  requests: readonly PolledRequest[],
  issued?: Pick<IssuedInvites, 'isSpent' | 'isJoined'>,
): Promise<readonly RefusedJoiner[]> {
  const { context } = agent
  const refused: RefusedJoiner[] = []
  const isOwner = channel.owner === context.agentId
  const checked = await checkAsMember(context, channel, requests, refused)
  const candidates = checked.filter((each) => replayToMember(context, channel, each, issued) !== 'ignored')
  if (candidates.length === 0) return refused
  if (!isOwner) await agent.timers.wait(DELAY_MS + context.chance() * DELAY_SPREAD_MS)
  const done = new Set<MembersCandidate>()
  const failed = (each: MembersCandidate, error: unknown): void => {
    done.add(each)
    refused.push({ request: each.request, error })
  }
  const round = async (): Promise<boolean> => {
    if (!isOwner && channel.listedInvites.isFull) return false
    const chosen = chooseToClaim(context, channel, candidates, done, failed)
    if (chosen.length === 0) return false
    try {
      await channel.listedInvites.claims.claim(chosen.map(({ invite, agent }) => ({ invite, agent })))
    } catch (error) {
      if (StaticError.from(error).code === 'closed') throw error
      // A later poll returns the requests.
      return false
    }
    await addAsMember(context, channel, chosen, failed)
    return true
  }
  for (let tries = 0; tries < MOST_TRIES && !channel.failure; tries++)
    if (!(await channel.listedInvites.inTurn(round))) break
  if (channel.upkeep.isRekeyDue) await unlessRefused(channel.upkeep.rekey())
  return refused
}

/** The candidates whose requests are valid. Changes nothing. */
async function checkAsMember(
  context: AgentServices['context'],
  channel: AgentChannel,
  requests: readonly PolledRequest[],
  refused: RefusedJoiner[],
): Promise<MembersCandidate[]> {
  const candidates: MembersCandidate[] = []
  for (const request of requests) {
    const invite = toHex(request.inviteId)
    const listed = channel.listedInvites.invite(invite)
    try {
      if (!listed) throw StaticError.of('invite_invalid')
      const keys = admitKeys(request.inviteId, listed.members)
      const candidate = await checkRequest(context, joinPlaceOf(channel), keys, request)
      candidates.push({ ...candidate, invite })
    } catch (error) {
      refused.push({ request, error })
    }
  }
  return candidates
}

/**
 * The candidates to claim now: not in the group, not claimed by others, and no more than their invites have uses left.
 */
function chooseToClaim(
  context: AgentServices['context'],
  channel: AgentChannel,
  candidates: readonly MembersCandidate[],
  done: ReadonlySet<MembersCandidate>,
  failed: (each: MembersCandidate, error: unknown) => void,
): MembersCandidate[] {
  const { listedInvites, roster, group } = channel
  const chosen: MembersCandidate[] = []
  for (const each of candidates) {
    const { agent, invite, identity } = each
    if (chosen.length >= MOST_CLAIMED) break
    // It asks with two invites, and is added once.
    if (done.has(each) || chosen.some((other) => other.agent === agent)) continue
    const replay = replayToMember(context, channel, each)
    if (replay === 'ignored' || listedInvites.claims.isHeldBack(agent)) continue
    const listed = listedInvites.invite(invite)
    const left = usesLeft(listedInvites, invite)
    // A newcomer that does not know how many have joined admits no one, and right after a removal neither does any
    // member.
    if (listed && left === undefined) continue
    if (!listed || left === undefined) failed(each, StaticError.of('invite_revoked'))
    else if (listed.expiresAt <= context.now()) failed(each, StaticError.of('invite_expired'))
    else if (replay === 'refused') failed(each, StaticError.of('invite_invalid'))
    else if (left <= 0) failed(each, StaticError.of('invite_used_up'))
    else if (roster.conflict(identity, agent) !== undefined) failed(each, StaticError.of('identity_changed'))
    else if ((group?.members.size ?? 0) + chosen.length >= MAX_MEMBERS) failed(each, StaticError.of('group_full'))
    else if (countOf(chosen, invite) < left) chosen.push(each)
  }
  return chosen
}

/** How many agents may still join with an invite; undefined if it is not in the list, or this agent does not know. */
function usesLeft(listedInvites: AgentChannel['listedInvites'], invite: string): number | undefined {
  const [listed, count] = [listedInvites.invite(invite), listedInvites.count(invite)]
  return listed && count !== undefined && !listedInvites.isStopped ? listed.maxUses - count : undefined
}

function countOf(candidates: readonly MembersCandidate[], invite: string): number {
  return candidates.filter((each) => each.invite === invite).length
}

/** Adds the candidates that this agent claimed, unless another commit comes in between. */
async function addAsMember(
  context: AgentServices['context'],
  channel: AgentChannel,
  candidates: readonly MembersCandidate[],
  failed: (each: MembersCandidate, error: unknown) => void,
): Promise<void> {
  const { listedInvites, roster } = channel
  await addJoiners(channel, candidates, {
    isDue: (each, _, others) => {
      if (!listedInvites.claims.isOwn(each) || replayToMember(context, channel, each) === 'ignored') return false
      // The claim may have been delayed until after another commit.
      const left = usesLeft(listedInvites, each.invite)
      if (left === undefined) throw StaticError.of('invite_revoked')
      if (countOf(others, each.invite) >= left) throw StaticError.of('invite_used_up')
      return true
    },
    failed: (each, error) => {
      listedInvites.claims.failed(each.agent)
      if (StaticError.from(error).code === 'group_full') listedInvites.full()
      return Promise.resolve(failed(each, error))
    },
    joiners: () => [],
    noticeOf: (agent) => roster.notice(agent),
    isVouched: (each) => staysVouched(channel, each),
    replacedBy: () => [],
  })
}

// ---- By either ----

/** Tells a joiner why it is not admitted, unless the reason is transient: then its request stays at the relay. */
export async function answerJoin(
  { requests }: Pick<AgentServices, 'requests'>,
  { inviteId, agentId }: PolledRequest,
  error: unknown,
): Promise<void> {
  const { code } = StaticError.from(error)
  if (code === 'closed') throw error
  if (TRANSIENT.has(code)) return
  const value = message(AnswerJoinRequestSchema, {
    inviteId,
    agentId,
    code: JOIN_REFUSALS.includes(code) ? code : 'invite_invalid',
  })
  // The relay refuses this if the request is gone, and then no joiner is waiting for the answer. If there were too many
  // answers, the request stays at the relay and is decided again with the other pending ones (`JoinPolls`). Waiting
  // here would delay other joiners.
  await requests.outcome({ case: 'answerJoin', value })
}

/** The context that requests and tokens are bound to. */
export function joinPlaceOf({ channelId, name, owner }: AgentChannel): JoinPlace {
  return { channelId, name, owner: fromHex(owner) }
}

/**
 * Whether the owner has already vouched for a joiner that only lost its state. One with a new name must be vouched for
 * again.
 */
function staysVouched(channel: AgentChannel, { agent, identity }: Candidate): boolean {
  const { receipts, group } = channel
  const leaf = isMember(channel, agent) ? group?.members.get(agent) : undefined
  return leaf !== undefined && same(leaf.identity, identity) && receipts.isVouched(agent)
}
