/**
 * How the owner handles join requests: checks each, adds all valid ones that arrived together (addition.ts), and answers
 * the others with an error code. Requests with invites that members may use are decided like a member's (members.ts).
 */
import { sha256 } from '#platform/crypto'
import { type ErrorCode, fromHex, message, StaticError, toHex } from '@static/protocol'
import { AnswerJoinRequestSchema, type JoinRequest as PolledRequest } from '@static/protocol/relay'
import { same } from '../platform/bytes.ts'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AgentId, JoinerRecord } from '../ports/index.ts'
import { addTogether, type Candidate, checkCandidate, TRANSIENT } from './addition.ts'
import { type Invite, type IssuedInvites, unlessRefused } from './issued.ts'
import type { JoinRequest } from '../joining/request.ts'
import type { JoinPlace } from './keys.ts'

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

/** One that asks with an invite that only the owner may use. */
interface OwnCandidate extends Candidate {
  readonly invite: Invite
}

/** Whoever is not admitted, and why. */
export type Refuse = (request: PolledRequest, error: unknown) => void

/**
 * Admits the senders of requests, or answers why not.
 *
 * @throws {StaticError} `closed`
 */
export async function decide(
  owner: Admitting,
  channel: AgentChannel,
  requests: readonly PolledRequest[],
): Promise<void> {
  const refused: { readonly request: PolledRequest; readonly error: unknown }[] = []
  const refuse: Refuse = (request, error) => void refused.push({ request, error })
  const candidates = await check(owner, channel, requests, refuse)
  const taken = reserve(owner, channel, candidates, refuse)
  if (taken.length > 0) {
    await owner.agent.context.journal.written()
    await channel.admissions.inTurn(() => add(owner, channel, taken, refuse))
    if (channel.upkeep.isRekeyDue) await unlessRefused(channel.upkeep.rekey())
  }
  await Promise.all(refused.map(({ request, error }) => answerJoin(owner.agent, request, error)))
}

/** The context that requests and tokens are bound to. */
export function placeOf({ channelId, name, owner }: AgentChannel): JoinPlace {
  return { channelId, name, owner: fromHex(owner) }
}

/** Those whose requests are in order. Changes nothing. */
async function check(
  { agent: { context }, issued }: Admitting,
  channel: AgentChannel,
  requests: readonly PolledRequest[],
  refuse: Refuse,
): Promise<OwnCandidate[]> {
  const candidates: OwnCandidate[] = []
  for (const request of requests) {
    try {
      const invite = issued.get(toHex(request.inviteId))
      if (!invite || invite.record.channel !== channel.id) throw StaticError.of('invite_invalid')
      issued.checkAlive(invite.record.id)
      candidates.push({ ...(await checkCandidate(context, placeOf(channel), invite.keys, request)), invite })
    } catch (error) {
      refuse(request, error)
    }
  }
  return candidates
}

/** Takes a use for each that is not in the channel yet, at once: what others do meanwhile does not come in between. */
function reserve(
  { issued }: Admitting,
  channel: AgentChannel,
  candidates: readonly OwnCandidate[],
  refuse: Refuse,
): OwnCandidate[] {
  const taken = new Map<AgentId, OwnCandidate>()
  const identities = new Set<string>()
  for (const candidate of candidates) {
    const { agent, invite, request } = candidate
    // It asks by two invites, and is added once.
    if (taken.has(agent)) continue
    // Not refused: it may have asked again since.
    if (channel.admissions.hasLeft(agent, candidate.encryptionKey)) continue
    if (issued.isSpent(channel.id, agent, candidate) || isOlder(channel, candidate)) continue
    const known = issued.joiner(channel.id, agent)
    const again = known !== undefined && isSame(known, candidate)
    // Already added, by this invite or another: its Welcome is waiting at the relay.
    if (again && (known.state === 'added' || known.state === 'here') && isIn(channel, agent)) continue
    try {
      // It has joined with this request before, and left: only the relay has it still.
      if (again && known.state === 'here') throw StaticError.of('invite_invalid')
      const identity = toHex(candidate.identity)
      if (identities.has(identity)) throw StaticError.of('identity_changed')
      const hasUse = again && known.state === 'taken' && known.invite === invite.record.id
      if (!hasUse) issued.takeUse(channel, invite, candidate, candidate, taken.size)
      identities.add(identity)
      taken.set(agent, candidate)
    } catch (error) {
      refuse(request, error)
    }
  }
  return [...taken.values()]
}

async function add(
  { issued }: Admitting,
  channel: AgentChannel,
  candidates: readonly OwnCandidate[],
  refuse: Refuse,
): Promise<void> {
  const { admissions, upkeep } = channel
  const { claims } = admissions
  // If this agent has claimed one by an invite for members and could not add it, the commit would be a use of that invite.
  const isClaimed = candidates.some((each) => claims.mayCount(each.agent))
  if (isClaimed && claims.mayEnd()) await unlessRefused(upkeep.rekey())
  const isTaken = ({ agent }: Candidate): boolean => issued.joiner(channel.id, agent)?.state === 'taken'
  await addTogether(channel, candidates, {
    isDue: (each) => {
      // Its commit was pending when this agent stopped, and has been accepted since.
      if (!isTaken(each)) return false
      if (admissions.hasLeft(each.agent, each.encryptionKey)) throw StaticError.of('invite_invalid')
      issued.checkAlive(each.invite.record.id)
      // No other epoch has begun: it is tried again.
      if (claims.mayCount(each.agent)) throw StaticError.of('unavailable')
      return true
    },
    failed: async (each, error) => {
      if (isTaken(each)) await issued.giveBack(channel.id, each.agent)
      // Not one that has left: it may have asked again since.
      if (!admissions.hasLeft(each.agent, each.encryptionKey)) refuse(each.request, error)
    },
    joiners: (chosen) => chosen.map(({ agent, keyPackage }) => `${agent} ${toHex(sha256(keyPackage))}`),
    noticeOf: () => undefined,
    // The owner has given a token of one use to this agent alone. One that only lost its state stays vouched for.
    isVouched: ({ agent, invite }) => invite.record.maxUses === 1 || channel.receipts.isVouched(agent),
  })
}

/** Tells a joiner why it is not admitted, unless the reason passes: then its request stays at the relay. */
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
    code: ANSWERS.has(code) ? code : 'invite_invalid',
  })
  // Refused if the request is gone; then no joiner is waiting for the answer. If there were too many answers, it stays at
  // the relay, and is decided again with those that wait (`JoinPolls`): no wait here may hold up other joiners.
  await requests.outcome({ case: 'answerJoin', value })
}

/** Whether an agent is in the group and has not left. */
export function isIn({ group, roster }: AgentChannel, agent: AgentId): boolean {
  return group?.members.has(agent) === true && roster.notice(agent) === undefined
}

/**
 * Whether an agent that was heard in the channel is there by a KeyPackage that it made later, or has committed since: only
 * the relay has this request still, or it was made with another token. The agent has forgotten its KeyPackage, so acting on
 * it would put the agent out.
 */
function isOlder(channel: AgentChannel, { agent, encryptionKey, madeAt }: Candidate): boolean {
  const leaf = isIn(channel, agent) ? channel.group?.members.get(agent) : undefined
  if (!leaf || same(leaf.encryptionKey, encryptionKey)) return false
  return leaf.madeAt === undefined || (channel.history.sender(agent) !== undefined && madeAt <= leaf.madeAt)
}

function isSame({ nonce, keyPackageHash }: JoinerRecord, request: JoinRequest): boolean {
  return same(nonce, request.nonce) && same(keyPackageHash, sha256(request.keyPackage))
}
