/**
 * Join requests: kept until the agent that registered the invite has answered, or someone has added the joiner, or they
 * expire. Those that any member may answer live as long as their invite.
 */
import type {
  AgentId,
  Done,
  Invite,
  JoinRequest,
  NumberedJoin,
  Refusal,
  StoreRequest,
  StoreResult,
} from '../../ports.ts'
import { type Context, admit, isRefusal, refuse } from './context.ts'
import { isForMembers, whyEnded } from './invite-uses.ts'
import type { Channel } from './state.ts'
import { type JoinHeader, type JoinQueue, queueOf } from './transient-rows.ts'
import { isWelcomed } from './welcomed.ts'

/** How long a joiner that finds an invite crowded should wait. */
const CROWDED_MS = 5000
/** Bytes charged for a request to members in addition to its box. */
const JOIN_OVERHEAD = 500

/** Stores a join request. An owner that has too many loses its oldest one. */
export function requestJoin(context: Context, request: StoreRequest<'requestJoin'>): Done | Refusal {
  const { transient } = context.rows
  const { join, maxPerInvite, maxPerOwner, now } = request
  const { invite, owner, channel, agent } = join
  // Added since the invite was looked up, perhaps with its last use: a refusal would make it forget what its Welcome is for.
  if (owner === undefined && isWelcomed(context.rows, channel, agent)) return { done: true }
  const others = transient.joinsOf(queueOf(join)).filter((each) => each.invite !== invite || each.agent !== agent)
  const live = others.filter(({ until }) => until > now)
  if (live.filter((each) => each.invite === invite).length >= maxPerInvite) {
    return crowded('Too many agents are waiting to join with this invite. Retry later.')
  }
  if (owner === undefined) {
    const refusal = judgeForMembers(context, request, live)
    if (refusal) return refusal
  } else {
    for (const oldest of others.slice(0, Math.max(0, others.length + 1 - maxPerOwner))) {
      transient.dropJoin(oldest.invite, oldest.agent)
    }
  }
  transient.dropJoin(invite, agent)
  transient.putJoin(join)
  context.emit({ type: 'joinRequested', channel, owner })
  return { done: true }
}

/** Checks a request that members may answer. The newest is refused, so that nobody can push out one that was accepted. */
function judgeForMembers(
  context: Context,
  request: StoreRequest<'requestJoin'>,
  live: readonly JoinHeader[],
): Refusal | undefined {
  const { join, now } = request
  const invite = context.rows.invites.get(join.invite)
  if (!isForMembers(invite, { id: join.channel })) return refuse('invite_invalid')
  const ended = whyEnded(invite, now)
  if (ended) return ended
  if (makeRoom(context, request, live)) return undefined
  return crowded('The requests to join this channel take up too much room. Retry later.')
}

/**
 * Whether the requests of the channel fit into its room. What an invite holds counts twice, so that whoever has its token
 * leaves room to the other invites. Requests for used-up invites make room: they wait only in case a use is returned.
 */
function makeRoom(
  context: Context,
  { join: { invite, channel, box }, maxBytes, now }: StoreRequest<'requestJoin'>,
  live: readonly JoinHeader[],
): boolean {
  const cost = ({ size, invite: id }: Pick<JoinHeader, 'size' | 'invite'>): number =>
    (size + JOIN_OVERHEAD) * (id === invite ? 2 : 1)
  const fits = (waiting: readonly JoinHeader[]): boolean =>
    waiting.reduce((sum, each) => sum + cost(each), box.length + JOIN_OVERHEAD) <= maxBytes
  if (fits(live)) return true
  const ended = new Set(live.map((each) => each.invite))
  for (const id of ended) {
    const known = context.rows.invites.get(id)
    if (known && !whyEnded(known, now)) ended.delete(id)
  }
  if (!fits(live.filter((each) => !ended.has(each.invite)))) return false
  for (const id of ended) refuseInvite(context, channel, id, 'invite_used_up')
  return true
}

function crowded(message: string): Refusal {
  return { refused: 'rate_limited', message, retryAfterMs: CROWDED_MS }
}

/** The join requests of a channel for an agent: as the owner, and as a member. */
export function takeJoins(context: Context, request: StoreRequest<'takeJoins'>): StoreResult<'takeJoins'> {
  const { transient } = context.rows
  const { actor, channel, after, maxRequests, maxBytes, now } = request
  const waiting = (owner: JoinRequest['owner']): (JoinHeader & Pick<JoinRequest, 'owner'>)[] => {
    const found = transient.joinsOf(queueOf({ owner, channel }))
    return found.filter((join) => join.channel === channel && join.until > now).map((join) => ({ ...join, owner }))
  }
  const shared = isRefusal(admit(context, actor, channel)) ? [] : waiting(undefined)
  const all = [...waiting(actor.agent), ...shared].toSorted((a, b) => a.number - b.number)
  const joins: NumberedJoin[] = []
  let bytes = 0
  for (const { size, ...join } of all.filter(({ number }) => number > after).slice(0, maxRequests)) {
    bytes += size
    if (joins.length > 0 && bytes > maxBytes) break
    const { invite, agent, owner, until, number } = join
    const box = transient.joinBox(queueOf({ owner, channel }), invite, agent)
    joins.push({ invite, channel, owner, agent, box, until, number })
  }
  const pending = all.map(({ number }) => number).filter((number) => number <= after)
  return { joins, lastNumber: joins.at(-1)?.number ?? after, pending }
}

/**
 * Ends a join request with the answer of the agent that registered the invite. Also if members may admit the joiner: one
 * of them alone must not be able to turn it away. A joiner that answers itself takes its request back.
 */
export function answerJoin(context: Context, request: StoreRequest<'answerJoin'>): Done | Refusal {
  const { owner, invite, agent, code, now } = request
  const { rows } = context
  const known = rows.invites.get(invite)
  const mayAnswer = known && (known.agent === owner || agent === owner)
  const queue = mayAnswer ? queueOfInvite(known) : owner
  const join = rows.transient.joinsOf(queue).find((each) => each.invite === invite && each.agent === agent)
  if (!join || join.until <= now) {
    return refuse('not_found', `Agent ${agent} has no pending join request for this invite.`)
  }
  rows.transient.dropJoin(invite, agent)
  if (agent !== owner) context.emit({ type: 'joinAnswered', agent, inviteId: invite, code })
  return { done: true }
}

/** Where the requests for an invite wait. */
export function queueOfInvite({ agent, channel, members }: Invite): JoinQueue {
  return members ? channel : agent
}

/** Refuses the join requests for an invite. */
export function refuseInvite(context: Context, queue: JoinQueue, invite: string, code: string): void {
  refuseJoins(context, queue, (join) => join.invite === invite, code)
}

/** Refuses the join requests for a channel that is deleted. */
export function refuseChannel(context: Context, { id, owner }: Channel): void {
  for (const queue of [owner, id]) refuseJoins(context, queue, ({ channel }) => channel === id, 'invite_invalid')
}

/** Drops the requests of an agent that leaves a channel: whoever acted on one later would add it against its will. */
export function dropJoinsOf(context: Context, { id, owner }: Channel, agent: AgentId): void {
  const { transient } = context.rows
  for (const queue of [owner, id]) {
    const own = transient.joinsOf(queue).filter((join) => join.agent === agent && join.channel === id)
    for (const { invite } of own) transient.dropJoin(invite, agent)
  }
}

function refuseJoins(
  context: Context,
  queue: JoinQueue,
  isMeant: (join: Pick<JoinRequest, 'invite' | 'channel'>) => boolean,
  code: string,
): void {
  const { transient } = context.rows
  for (const join of transient.joinsOf(queue).filter(isMeant)) {
    transient.dropJoin(join.invite, join.agent)
    context.emit({ type: 'joinAnswered', agent: join.agent, inviteId: join.invite, code })
  }
}
