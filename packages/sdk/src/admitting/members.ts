/**
 * Admits those who ask with invites that members may use (SPEC.md, 6.5), as the owner or as any member with an account.
 * The owner acts at once, others after a random delay, and all leave a joiner to the member that has claimed it. Slots
 * order the commits: who loses one looks at the group again, and claims again what is left to do.
 */
import { MAX_MEMBERS, StaticError, toHex } from '@static/protocol'
import type { JoinRequest as PolledRequest } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import type { AgentServices } from '../agent/services.ts'
import { MOST_CLAIMED } from './claims.ts'
import type { AgentChannel } from '../channel/channel.ts'
import { addTogether, type Candidate, checkCandidate } from './addition.ts'
import { isIn, placeOf, type Refuse } from './admission.ts'
import { unlessRefused } from './issued.ts'
import { admitKeys } from './keys.ts'

/** Members other than the owner wait for this long and a random share of the spread, so that mostly one acts. */
const DELAY_MS = 500
const DELAY_SPREAD_MS = 2500
/** How often slots may be lost to other commits before the rest is left to others, or to a later poll. */
const MOST_TRIES = 64

/** One that asks with an invite that members may use. */
interface MembersCandidate extends Candidate {
  /** Invite id, hexadecimal. */
  readonly invite: string
}

/** What only the owner knows and does. */
export interface OwnerPart {
  /** Whether this agent has added the joiner with the request by an invite of its own. */
  readonly isVoid: (candidate: Candidate) => boolean
  /** Answers one that can never be admitted. */
  readonly refuse: Refuse
}

/**
 * Admits the senders of requests that came together, as far as no one else does.
 *
 * @throws {StaticError} `closed`
 */
export async function admitAsMember(
  agent: Pick<AgentServices, 'context' | 'timers'>,
  channel: AgentChannel,
  requests: readonly PolledRequest[],
  { isVoid, refuse }: OwnerPart = { isVoid: () => false, refuse: () => {} },
): Promise<void> {
  const { context } = agent
  const checked = await check(context, channel, requests, refuse)
  // What a member has asked before is void, also if it leaves meanwhile.
  const candidates = checked.filter((each) => !isVoid(each) && !isSettled(context, channel, each))
  if (candidates.length === 0) return
  if (channel.owner !== context.agentId) await agent.timers.wait(DELAY_MS + context.chance() * DELAY_SPREAD_MS)
  const done = new Set<MembersCandidate>()
  const failed = (each: MembersCandidate, error: unknown): void => {
    done.add(each)
    refuse(each.request, error)
  }
  const round = async (): Promise<boolean> => {
    const chosen = choose(context, channel, candidates, done, failed)
    if (chosen.length === 0) return false
    try {
      await channel.admissions.claims.claim(chosen.map(({ invite, agent }) => ({ invite, agent })))
    } catch (error) {
      if (StaticError.from(error).code === 'closed') throw error
      // A later poll returns the requests.
      return false
    }
    await add(context, channel, chosen, failed)
    return true
  }
  for (let tries = 0; tries < MOST_TRIES && !channel.failure; tries++)
    if (!(await channel.admissions.inTurn(round))) break
  if (channel.upkeep.isRekeyDue) await unlessRefused(channel.upkeep.rekey())
}

/** Those whose requests are in order. Changes nothing. */
async function check(
  context: AgentServices['context'],
  channel: AgentChannel,
  requests: readonly PolledRequest[],
  refuse: Refuse,
): Promise<MembersCandidate[]> {
  const candidates: MembersCandidate[] = []
  for (const request of requests) {
    const invite = toHex(request.inviteId)
    const listed = channel.admissions.invite(invite)
    try {
      if (!listed) throw StaticError.of('invite_invalid')
      const keys = admitKeys(request.inviteId, listed.members)
      const candidate = await checkCandidate(context, placeOf(channel), keys, request)
      candidates.push({ ...candidate, invite })
    } catch (error) {
      refuse(request, error)
    }
  }
  return candidates
}

/** Those to claim now: not in the group, not claimed by others, and no more than their invites have uses left. */
function choose(
  context: AgentServices['context'],
  channel: AgentChannel,
  candidates: readonly MembersCandidate[],
  done: ReadonlySet<MembersCandidate>,
  failed: (each: MembersCandidate, error: unknown) => void,
): MembersCandidate[] {
  const { admissions, roster, group } = channel
  const chosen: MembersCandidate[] = []
  for (const each of candidates) {
    const { agent, invite, identity } = each
    if (chosen.length >= MOST_CLAIMED) break
    // It asks by two invites, and is added once.
    if (done.has(each) || chosen.some((other) => other.agent === agent)) continue
    if (isSettled(context, channel, each) || admissions.claims.isHeldBack(agent)) continue
    const listed = admissions.invite(invite)
    const left = usesLeft(admissions, invite)
    // A newcomer that has not been told how many have joined admits no one, nor does anyone right after a removal.
    if (listed && left === undefined) continue
    if (!listed || left === undefined) failed(each, StaticError.of('invite_revoked'))
    else if (listed.expiresAt <= context.now()) failed(each, StaticError.of('invite_expired'))
    else if (admissions.isReplayed(agent, each.encryptionKey)) failed(each, StaticError.of('invite_invalid'))
    else if (left <= 0) failed(each, StaticError.of('invite_used_up'))
    else if (roster.conflict(identity, agent) !== undefined) failed(each, StaticError.of('identity_changed'))
    else if ((group?.members.size ?? 0) + chosen.length >= MAX_MEMBERS) failed(each, StaticError.of('group_full'))
    else if (countOf(chosen, invite) < left) chosen.push(each)
  }
  return chosen
}

/**
 * Whether a joiner is in the group, or has left it since it asked; then it may ask again. If it was never heard there and
 * asks with another KeyPackage than it was added with, a member has added it and not let it in: the owner adds it again.
 * Others may not remove it.
 */
function isSettled(
  { agentId }: Pick<AgentServices['context'], 'agentId'>,
  channel: AgentChannel,
  { agent, encryptionKey }: MembersCandidate,
): boolean {
  if (!isIn(channel, agent)) return channel.admissions.hasLeft(agent, encryptionKey)
  const leaf = channel.group?.members.get(agent)
  const isNew = leaf !== undefined && !same(leaf.encryptionKey, encryptionKey)
  return channel.owner !== agentId || !isNew || channel.history.sender(agent) !== undefined
}

/** How many may still join with an invite; undefined if it is not in the list, or this agent cannot say. */
function usesLeft(admissions: AgentChannel['admissions'], invite: string): number | undefined {
  const [listed, count] = [admissions.invite(invite), admissions.count(invite)]
  return listed && count !== undefined && !admissions.isStopped ? listed.maxUses - count : undefined
}

function countOf(candidates: readonly MembersCandidate[], invite: string): number {
  return candidates.filter((each) => each.invite === invite).length
}

/** Adds those that this agent has claimed, unless another commit has come in between. */
async function add(
  context: AgentServices['context'],
  channel: AgentChannel,
  candidates: readonly MembersCandidate[],
  failed: (each: MembersCandidate, error: unknown) => void,
): Promise<void> {
  const { admissions, roster, receipts } = channel
  await addTogether(channel, candidates, {
    isDue: (each, _, others) => {
      if (!admissions.claims.isOwn(each) || isSettled(context, channel, each)) return false
      // The claim may have been delayed until after another commit.
      const left = usesLeft(admissions, each.invite)
      if (left === undefined) throw StaticError.of('invite_revoked')
      if (countOf(others, each.invite) >= left) throw StaticError.of('invite_used_up')
      return true
    },
    failed: (each, error) => {
      admissions.claims.failed(each.agent)
      return Promise.resolve(failed(each, error))
    },
    joiners: () => [],
    noticeOf: (agent) => roster.notice(agent),
    isVouched: ({ agent }) => receipts.isVouched(agent),
  })
}
