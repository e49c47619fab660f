/**
 * How the owner handles join requests: checks each, adds all valid ones that arrived together with one commit and a
 * Welcome each, and answers the others with an error code. A joiner that the group refuses is found by halving the commit,
 * so it keeps out no one but itself.
 */
import { type ErrorCode, fromHex, message, StaticError, toHex } from '@static/protocol'
import { AnswerJoinRequestSchema, type JoinRequest as PolledRequest } from '@static/protocol/relay'
import type { AgentServices } from '../core/agent/services.ts'
import { same } from '../core/bytes.ts'
import { sha256 } from '../core/channel/log/history.ts'
import type { Membership } from '../core/channel/membership.ts'
import type { CheckedKeyPackage } from '../mls/index.ts'
import type { GroupState } from '../core/channel/group-state.ts'
import type { AgentId, JoinerRecord } from '../ports.ts'
import { type Invite, type IssuedInvites, unlessRefused } from './issued.ts'
import { type JoinRequest, openRequest } from './join-request.ts'
import { type JoinPlace, welcomeTag } from './keys.ts'

/** What admission needs from the issuer. */
export interface Admitting {
  readonly agent: Pick<AgentServices, 'context' | 'requests'>
  readonly issued: IssuedInvites
}

/** Error codes that a joiner may see. Any other reason is reported as `invite_invalid`. */
const ANSWERS: ReadonlySet<ErrorCode> = new Set([
  'invite_expired',
  'invite_used_up',
  'invite_revoked',
  'identity_changed',
  'group_full',
] satisfies ErrorCode[])

/** Errors that pass: the request stays at the relay, which hands it over again with a later poll. */
const TRANSIENT: ReadonlySet<ErrorCode> = new Set([
  'quota_exceeded',
  'queue_full',
  'rate_limited',
  'unavailable',
] satisfies ErrorCode[])

/** The refusals among these that one joiner can cause, for example with as many pending Welcomes as it may have. */
const DEFERRED: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'unavailable'] satisfies ErrorCode[])
/** How long the relay may defer a part of a commit that it has already deferred for too long. */
const PART_WAIT_MS = 5000
/** The number of such parts that may fail. Any more are left for the joiners' next requests. */
const MOST_DEFERRED = 16

/** One that asks, with all that is known of it. */
interface Candidate extends CheckedKeyPackage, JoinRequest {
  readonly agent: AgentId
  readonly invite: Invite
  readonly request: PolledRequest
}

/** Whoever is not admitted, and why. */
type Refuse = (request: PolledRequest, error: unknown) => void

/**
 * Admits the senders of requests, or answers why not.
 *
 * @throws {StaticError} `closed`
 */
export async function decide(
  owner: Admitting,
  membership: Membership,
  requests: readonly PolledRequest[],
): Promise<void> {
  const refused: { readonly request: PolledRequest; readonly error: unknown }[] = []
  const refuse: Refuse = (request, error) => void refused.push({ request, error })
  const candidates = await check(owner, membership, requests, refuse)
  const taken = reserve(owner, membership, candidates, refuse)
  if (taken.length > 0) {
    await owner.agent.context.journal.written()
    await add(owner, membership, taken, refuse)
    if (membership.upkeep.isRekeyDue) await unlessRefused(membership.upkeep.rekey())
  }
  await Promise.all(refused.map(({ request, error }) => answer(owner, request, error)))
}

/** The context that requests and tokens are bound to. */
export function placeOf({ channelId, name, owner }: Membership): JoinPlace {
  return { channelId, name, owner: fromHex(owner) }
}

/** Those whose requests are in order. Changes nothing. */
async function check(
  { agent: { context }, issued }: Admitting,
  membership: Membership,
  requests: readonly PolledRequest[],
  refuse: Refuse,
): Promise<Candidate[]> {
  const candidates: Candidate[] = []
  for (const request of requests) {
    try {
      const invite = issued.get(toHex(request.inviteId))
      if (!invite || invite.record.channel !== membership.id) throw StaticError.of('invite_invalid')
      issued.checkAlive(invite.record.id)
      const opened = openRequest(invite.keys, placeOf(membership), request.box)
      if (!opened) throw StaticError.of('invite_invalid')
      const checked = await context.engine.checkKeyPackage(opened.keyPackage, context.now(), request.agentId)
      candidates.push({ ...checked, ...opened, agent: toHex(checked.agentId), invite, request })
    } catch (error) {
      refuse(request, error)
    }
  }
  return candidates
}

/** Takes a use for each that is not in the channel yet, at once: what others do meanwhile does not come in between. */
function reserve(
  { issued }: Admitting,
  membership: Membership,
  candidates: readonly Candidate[],
  refuse: Refuse,
): Candidate[] {
  const taken = new Map<AgentId, Candidate>()
  const identities = new Set<string>()
  for (const candidate of candidates) {
    const { agent, invite, request } = candidate
    // It asks by two invites, and is added once.
    if (taken.has(agent)) continue
    const known = issued.joiner(membership.id, agent)
    const again = known !== undefined && isSame(known, candidate)
    // Already added, by this invite or another: its Welcome is waiting at the relay.
    if (again && (known.state === 'added' || known.state === 'here') && isIn(membership, agent)) continue
    try {
      const identity = toHex(candidate.identity)
      if (identities.has(identity)) throw StaticError.of('identity_changed')
      const hasUse = again && known.state === 'taken' && known.invite === invite.record.id
      if (!hasUse) issued.takeUse(membership, invite, candidate, candidate, taken.size)
      identities.add(identity)
      taken.set(agent, candidate)
    } catch (error) {
      refuse(request, error)
    }
  }
  return [...taken.values()]
}

/**
 * Adds them by one commit. What the group or the relay does not take as a whole is tried in halves. `deferrals` counts
 * the commits so far that the relay has deferred for too long.
 */
async function add(
  owner: Admitting,
  membership: Membership,
  candidates: readonly Candidate[],
  refuse: Refuse,
  deferrals: { count: number } = { count: 0 },
): Promise<void> {
  const { issued } = owner
  const isTaken = ({ agent }: Candidate): boolean => issued.joiner(membership.id, agent)?.state === 'taken'
  const failed = async (each: Candidate, error: unknown): Promise<void> => {
    if (isTaken(each)) await issued.giveBack(membership.id, each.agent)
    refuse(each.request, error)
  }
  const faults = new Map<Candidate, unknown>()
  let chosen: readonly Candidate[] = []
  const choose = (group: GroupState): ReturnType<typeof changeFor> | undefined => {
    faults.clear()
    chosen = candidates.filter((each) => {
      // Its commit was pending when this agent stopped, and has been accepted since.
      if (!isTaken(each)) return false
      try {
        issued.checkAlive(each.invite.record.id)
        return true
      } catch (error) {
        faults.set(each, error)
        return false
      }
    })
    return chosen.length === 0 ? undefined : changeFor(group, chosen)
  }
  try {
    const byAgent = new Map(candidates.map((each) => [each.agent, each]))
    await membership.committer.commit(choose, {
      tags: (agentId, welcome, epochAuthenticator) => {
        const each = byAgent.get(toHex(agentId))
        if (!each) return undefined
        const { keys } = each.invite
        return { inviteId: keys.inviteId, tag: welcomeTag(keys, each.keyPackage, welcome, epochAuthenticator) }
      },
      joiners: () => chosen.map(({ agent, keyPackage }) => `${agent} ${toHex(sha256(keyPackage))}`),
      ...(deferrals.count > 0 && { maxWaitMs: PART_WAIT_MS }),
    })
    for (const [each, error] of faults) await failed(each, error)
  } catch (error) {
    const { code } = StaticError.from(error)
    if (code === 'closed') throw error
    const maySplit = DEFERRED.has(code) ? ++deferrals.count <= MOST_DEFERRED : !TRANSIENT.has(code)
    if (candidates.length === 1 || !maySplit) {
      await Promise.all(candidates.map((each) => failed(each, error)))
      return
    }
    const half = Math.ceil(candidates.length / 2)
    await add(owner, membership, candidates.slice(0, half), refuse, deferrals)
    await add(owner, membership, candidates.slice(half), refuse, deferrals)
  }
}

/** An agent that lost its state returns with the same key: it is removed and added in one commit. */
function changeFor(
  group: GroupState,
  candidates: readonly Candidate[],
): { readonly adds: Uint8Array[]; readonly removes: Uint8Array[] } {
  const back = candidates.filter(({ agent, signatureKey }) => {
    const leaf = group.members.get(agent)
    return leaf !== undefined && same(leaf.signatureKey, signatureKey)
  })
  return {
    adds: candidates.map(({ keyPackage }) => keyPackage),
    removes: back.map(({ agentId }) => agentId),
  }
}

async function answer({ agent }: Admitting, { inviteId, agentId }: PolledRequest, error: unknown): Promise<void> {
  const { code } = StaticError.from(error)
  if (code === 'closed') throw error
  if (TRANSIENT.has(code)) return
  const value = message(AnswerJoinRequestSchema, {
    inviteId,
    agentId,
    code: ANSWERS.has(code) ? code : 'invite_invalid',
  })
  // The relay refuses this if the request is gone; then no joiner is waiting for the answer.
  await agent.requests.outcome({ case: 'answerJoin', value })
}

/** Whether an agent is in the group and has not left. */
function isIn({ group, roster }: Membership, agent: AgentId): boolean {
  return group?.members.has(agent) === true && roster.notice(agent) === undefined
}

function isSame({ nonce, keyPackageHash }: JoinerRecord, request: JoinRequest): boolean {
  return same(nonce, request.nonce) && same(keyPackageHash, sha256(request.keyPackage))
}
