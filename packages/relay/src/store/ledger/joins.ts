/** Join requests: kept until the invite's agent answers, or adds the joiner, or they expire. */
import type { AgentId, Done, JoinRequest, Refusal, StoreRequest, StoreResult } from '../../ports.ts'
import { type Context, refuse } from './context.ts'
import type { Channel } from './state.ts'

/** How long a joiner that finds an invite crowded should wait. */
const CROWDED_MS = 5000

/** Stores a join request, and drops the owner's oldest if it has too many. */
export function requestJoin(context: Context, request: StoreRequest<'requestJoin'>): Done | Refusal {
  const { transient } = context.rows
  const { join, maxPerInvite, maxPerOwner, now } = request
  const { invite, owner, channel, agent } = join
  const others = transient.joinsOf(owner).filter((each) => each.invite !== invite || each.agent !== agent)
  const live = others.filter(({ until }) => until > now)
  if (live.filter((each) => each.invite === invite).length >= maxPerInvite) {
    const message = 'Too many agents are waiting to join with this invite. Retry later.'
    return { refused: 'rate_limited', message, retryAfterMs: CROWDED_MS }
  }
  for (const oldest of others.slice(0, Math.max(0, others.length + 1 - maxPerOwner))) {
    transient.dropJoin(owner, oldest.invite, oldest.agent)
  }
  transient.dropJoin(owner, invite, agent)
  transient.putJoin(join)
  context.emit({ type: 'joinRequested', channel, owner })
  return { done: true }
}

/** The join requests of a channel for their owner, which it has then been given. */
export function takeJoins({ rows }: Context, request: StoreRequest<'takeJoins'>): StoreResult<'takeJoins'> {
  const { transient } = rows
  const { owner, channel, session, onlyIfNew, maxRequests, maxBytes, now } = request
  const waiting = transient.joinsOf(owner).filter((join) => join.channel === channel && join.until > now)
  const isNew = ({ given }: { readonly given: string | undefined }): boolean => given !== session
  if (onlyIfNew && !waiting.some(isNew)) return { joins: [] }
  // New requests first, so that unanswered ones do not block them.
  const order = [...waiting.filter(isNew), ...waiting.filter((join) => !isNew(join))]
  const joins: JoinRequest[] = []
  let bytes = 0
  for (const join of order.slice(0, maxRequests)) {
    bytes += join.size
    if (joins.length > 0 && bytes > maxBytes) break
    const { invite, agent, until } = join
    joins.push({ invite, channel, owner, agent, box: transient.joinBox(owner, invite, agent), until })
    if (isNew(join)) transient.giveJoin(owner, invite, agent, session)
  }
  return { joins }
}

/** Ends a join request with the owner's answer. */
export function answerJoin(context: Context, request: StoreRequest<'answerJoin'>): Done | Refusal {
  const { owner, invite, agent, code, now } = request
  const { transient } = context.rows
  const join = transient.joinsOf(owner).find((each) => each.invite === invite && each.agent === agent)
  if (!join || join.until <= now) {
    return refuse('not_found', `Agent ${agent} has no pending join request for this invite.`)
  }
  transient.dropJoin(owner, invite, agent)
  context.emit({ type: 'joinAnswered', agent, inviteId: invite, code })
  return { done: true }
}

/** Refuses the join requests for an invite that was revoked. */
export function refuseInvite(context: Context, owner: AgentId, invite: string): void {
  refuseJoins(context, owner, (join) => join.invite === invite, 'invite_revoked')
}

/** Refuses the join requests for a channel that is deleted. */
export function refuseChannel(context: Context, { id, owner }: Channel): void {
  refuseJoins(context, owner, ({ channel }) => channel === id, 'invite_invalid')
}

function refuseJoins(
  context: Context,
  owner: AgentId,
  isMeant: (join: Pick<JoinRequest, 'invite' | 'channel'>) => boolean,
  code: string,
): void {
  const { transient } = context.rows
  for (const join of transient.joinsOf(owner).filter(isMeant)) {
    transient.dropJoin(owner, join.invite, join.agent)
    context.emit({ type: 'joinAnswered', agent: join.agent, inviteId: join.invite, code })
  }
}
