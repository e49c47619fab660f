/**
 * Join requests: kept until the agent that registered the invite answers, someone adds the joiner, or they expire.
 * Requests that any member may answer live as long as their invite.
 */
import type { AgentId, Done, Invite, NumberedJoin, Refusal, StoreRequest, StoreResult, Time } from '../../../ports.ts'
import { type Context, admit, isRefusal, refuse } from '../context.ts'
import { whyEnded } from './invite-uses.ts'
import { type JoinHeader, type JoinKey, type JoinQueue, type JoinWeight, queueOf } from '../rows/joins.ts'
import type { Channel } from '../state.ts'
import { isWelcomed } from '../members/welcomed.ts'

/** How long a joiner that finds an invite crowded should wait. */
const CROWDED_MS = 5000
/** Bytes charged for a request to members in addition to its box. */
const JOIN_OVERHEAD = 500
const NOTHING: JoinWeight = { count: 0, bytes: 0 }

/** Stores a join request. An owner that has too many loses its oldest one. */
export function requestJoin(context: Context, request: StoreRequest<'requestJoin'>): Done | Refusal {
  const { joins } = context.rows.transient
  const { join, maxPerInvite, maxPerOwner, now } = request
  const { invite, owner, channel, agent } = join
  // It may have ended since it was looked up, and then no one would answer.
  const ended = whyClosed(context, request)
  // It was added meanwhile, perhaps with the last use: a refusal would make the agent forget what its Welcome is for.
  if ((ended || owner === undefined) && isWelcomed(context.rows, channel, agent)) return { done: true }
  if (ended) return ended
  const replaced = liveWeight(joins.get(invite, agent), queueOf(join), now)
  const forInvite = minus(joins.weight(queueOf(join), now, invite), replaced)
  if (forInvite.count >= maxPerInvite) {
    return crowded('Too many agents are waiting to join with this invite. Retry later.')
  }
  // The newest is refused, so that no one can push out an accepted one.
  if (owner === undefined && !makeRoom(context, request, forInvite, replaced)) {
    return crowded('The requests to join this channel take up too much room. Retry later.')
  }
  joins.drop(join)
  if (owner !== undefined) for (const oldest of joins.beyond(owner, maxPerOwner - 1)) joins.drop(oldest)
  joins.put(join)
  context.emit({ type: 'joinRequested', channel, owner })
  return { done: true }
}

/** What a request takes up in a queue; nothing if it has expired, or is not there. */
function liveWeight(join: JoinHeader | undefined, queue: JoinQueue, now: Time): JoinWeight {
  return join?.queue === queue && join.until > now ? { count: 1, bytes: join.size } : NOTHING
}

function minus(one: JoinWeight, other: JoinWeight): JoinWeight {
  return { count: one.count - other.count, bytes: one.bytes - other.bytes }
}

/** Why no one can be admitted with the invite of a request; undefined if someone can. */
function whyClosed({ rows }: Context, { join, now }: StoreRequest<'requestJoin'>): Refusal | undefined {
  const invite = rows.invites.get(join.invite)
  const isMeant = invite?.channel === join.channel && invite.members === (join.owner === undefined)
  return isMeant ? whyEnded(invite, now) : refuse('invite_invalid')
}

/**
 * Whether the requests of the channel fit into its room. Those of the request's own invite count twice, so that the
 * holder of one token leaves room for other invites. Requests for used-up invites make room: they wait only in case a
 * use is returned.
 */
function makeRoom(
  context: Context,
  { join: { channel, box }, maxBytes, now }: StoreRequest<'requestJoin'>,
  forInvite: JoinWeight,
  replaced: JoinWeight,
): boolean {
  const { invites, transient } = context.rows
  const cost = ({ count, bytes }: JoinWeight): number => bytes + count * JOIN_OVERHEAD
  const others = cost(minus(transient.joins.weight(channel, now), replaced))
  const lacking = others + cost(forInvite) + cost({ count: 1, bytes: box.length }) - maxBytes
  if (lacking <= 0) return true
  const weights = transient.joins.weights(channel, now)
  const ended = invites.usedUp(channel).filter((id) => weights.has(id))
  const freed = ended.reduce((sum, id) => sum + cost(weights.get(id) ?? NOTHING), 0)
  if (freed < lacking) return false
  refuseInvites(context, channel, ended, 'invite_used_up')
  return true
}

function crowded(message: string): Refusal {
  return { refused: 'rate_limited', message, retryAfterMs: CROWDED_MS }
}

/** The join requests of a channel for an agent: as the owner, and as a member. */
export function takeJoins(context: Context, request: StoreRequest<'takeJoins'>): StoreResult<'takeJoins'> {
  const rows = context.rows.transient.joins
  const { actor, channel, after, maxRequests, maxBytes, mayWait, now } = request
  const owners = isRefusal(admit(context, actor, channel)) ? [actor.agent] : [actor.agent, undefined]
  const places = owners.map((owner) => ({ queue: queueOf({ owner, channel }), channel, now }))
  const found = places.flatMap((place) => rows.after(place, after, maxRequests))
  const taken: JoinHeader[] = []
  let bytes = 0
  for (const join of inOrder(found, ({ number }) => number).slice(0, maxRequests)) {
    bytes += join.size
    if (taken.length > 0 && bytes > maxBytes) break
    taken.push(join)
  }
  const boxes = rows.boxes(taken)
  const joins = taken.map(({ invite, agent, queue, until, number }, at): NumberedJoin => {
    const owner = queue === channel ? undefined : queue
    return { invite, channel, owner, agent, box: boxes[at] as Uint8Array, until, number }
  })
  const isAnswer = joins.length > 0 || !mayWait
  const pending = isAnswer ? places.flatMap((place) => rows.numbers(place, after)) : []
  return { joins, lastNumber: joins.at(-1)?.number ?? after, pending: inOrder(pending, (number) => number) }
}

/**
 * Ends a join request with the answer of the agent that registered the invite. Members cannot do this, even if they may
 * admit the joiner: none of them alone should be able to turn it away. A joiner that answers itself withdraws its
 * request.
 */
export function answerJoin(context: Context, request: StoreRequest<'answerJoin'>): Done | Refusal {
  const { owner, invite, agent, code, now } = request
  const { rows } = context
  const known = rows.invites.get(invite)
  const mayAnswer = known && (known.agent === owner || agent === owner)
  const queue = mayAnswer ? queueOfInvite(known) : owner
  const join = rows.transient.joins.get(invite, agent)
  if (join?.queue !== queue || join.until <= now) {
    return refuse('not_found', `Agent ${agent} has no pending join request for this invite.`)
  }
  rows.transient.joins.drop(join)
  if (agent !== owner) context.emit({ type: 'joinAnswered', agent, inviteId: invite, code })
  return { done: true }
}

/** Where the requests for an invite wait. */
export function queueOfInvite({ agent, channel, members }: Invite): JoinQueue {
  return members ? channel : agent
}

/** Refuses the join requests for invites. */
export function refuseInvites(context: Context, queue: JoinQueue, invites: readonly string[], code: string): void {
  if (invites.length > 0) refuseJoins(context, context.rows.transient.joins.forInvites(queue, invites), code)
}

/** Refuses all join requests for a channel. */
export function refuseChannel(context: Context, { id }: Channel, code: string): void {
  refuseJoins(context, context.rows.transient.joins.inChannel(id), code)
}

/** Drops the requests of an agent that leaves a channel: acting on one later would add it against its will. */
export function dropJoinsOf(context: Context, { id }: Channel, agent: AgentId): void {
  const { joins } = context.rows.transient
  for (const join of joins.ofAgent(id, agent)) joins.drop(join)
}

function refuseJoins(context: Context, joins: readonly JoinKey[], code: string): void {
  for (const join of joins) {
    context.rows.transient.joins.drop(join)
    context.emit({ type: 'joinAnswered', agent: join.agent, inviteId: join.invite, code })
  }
}

function inOrder<Item>(items: readonly Item[], numberOf: (item: Item) => number): readonly Item[] {
  return items.toSorted((one, other) => numberOf(one) - numberOf(other))
}
