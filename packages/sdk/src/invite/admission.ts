/** How the owner handles a join request: checks it, then answers with a commit and a Welcome, or with an error code. */
import { type ErrorCode, fromHex, message, StaticError, toHex } from '@static/protocol'
import { AnswerJoinRequestSchema, type JoinRequest as PolledRequest } from '@static/protocol/relay'
import type { AgentServices } from '../core/agent/services.ts'
import { same } from '../core/bytes.ts'
import { sha256 } from '../core/channel/history.ts'
import type { Membership } from '../core/channel/membership.ts'
import type { CheckedKeyPackage } from '../mls/index.ts'
import type { AgentId, JoinerRecord } from '../ports.ts'
import type { Invite, IssuedInvites } from './issued.ts'
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

/**
 * Admits the sender of a request, or answers why not.
 *
 * @throws {StaticError} `closed`
 */
export async function decide(owner: Admitting, membership: Membership, request: PolledRequest): Promise<void> {
  const invite = owner.issued.get(toHex(request.inviteId))
  try {
    if (!invite || invite.record.channel !== membership.id) throw StaticError.of('invite_invalid')
    await admit(owner, membership, invite, request)
  } catch (error) {
    const { code } = StaticError.from(error)
    if (code === 'closed') throw error
    if (TRANSIENT.has(code)) return
    const { inviteId, agentId } = request
    const answer = ANSWERS.has(code) ? code : 'invite_invalid'
    const value = message(AnswerJoinRequestSchema, { inviteId, agentId, code: answer })
    // The relay refuses this if the request is gone; then no joiner is waiting for the answer.
    await owner.agent.requests.outcome({ case: 'answerJoin', value })
  }
}

/** The context that requests and tokens are bound to. */
export function placeOf({ channelId, name, owner }: Membership): JoinPlace {
  return { channelId, name, owner: fromHex(owner) }
}

/** Checks a request and adds its sender. Throws the error to answer with. */
async function admit(owner: Admitting, membership: Membership, invite: Invite, request: PolledRequest): Promise<void> {
  const { issued } = owner
  const { context } = owner.agent
  issued.checkAlive(invite.record.id)
  const opened = openRequest(invite.keys, placeOf(membership), request.box)
  if (!opened) throw StaticError.of('invite_invalid')
  const checked = await context.engine.checkKeyPackage(opened.keyPackage, context.now(), request.agentId)
  const known = issued.joiner(membership.id, toHex(checked.agentId))
  const again = known !== undefined && isSame(known, opened)
  // Already added, by this invite or another: its Welcome is waiting at the relay.
  if (again && (known.state === 'added' || known.state === 'here') && isIn(membership, known.agent)) return
  const hasUse = again && known.state === 'taken' && known.invite === invite.record.id
  if (!hasUse) await issued.takeUse(membership, invite, checked, opened)
  await add(issued, membership, invite, checked, opened)
}

async function add(
  issued: IssuedInvites,
  membership: Membership,
  { record, keys }: Invite,
  { agentId, signatureKey }: CheckedKeyPackage,
  { keyPackage }: JoinRequest,
): Promise<void> {
  const agent = toHex(agentId)
  const tag = (welcome: Uint8Array, epochAuthenticator: Uint8Array): { inviteId: Uint8Array; tag: Uint8Array } => ({
    inviteId: keys.inviteId,
    tag: welcomeTag(keys, keyPackage, welcome, epochAuthenticator),
  })
  const isTaken = (): boolean => issued.joiner(membership.id, agent)?.state === 'taken'
  try {
    await membership.committer.commit(
      (group) => {
        // Its commit was pending when this agent stopped, and has been accepted since.
        if (!isTaken()) return undefined
        issued.checkAlive(record.id)
        const leaf = group.members.get(agent)
        // An agent that lost its state returns with the same key: remove and add it in one commit.
        const removes = leaf && same(leaf.signatureKey, signatureKey) ? [agentId] : []
        return { adds: [keyPackage], removes }
      },
      { tag, joiner: `${agent} ${toHex(sha256(keyPackage))}` },
    )
  } catch (error) {
    if (StaticError.from(error).code !== 'closed' && isTaken()) await issued.giveBack(membership.id, agent)
    throw error
  }
  if (membership.upkeep.isRekeyDue) await membership.upkeep.rekey()
}

/** Whether an agent is in the group and has not left. */
function isIn({ group, roster }: Membership, agent: AgentId): boolean {
  return group?.members.has(agent) === true && roster.notice(agent) === undefined
}

function isSame({ nonce, keyPackageHash }: JoinerRecord, request: JoinRequest): boolean {
  return same(nonce, request.nonce) && same(keyPackageHash, sha256(request.keyPackage))
}
