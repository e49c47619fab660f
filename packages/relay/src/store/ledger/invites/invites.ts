/** Invites, as the relay knows them: who registered one, when it expires, and how often it was used. */
import type { Done, Refusal, StoreRequest, StoreResult, Time } from '../../../ports.ts'
import { type Context, admit, isRefusal, noteAction, refuse } from '../context.ts'
import { whyEnded } from './invite-uses.ts'
import { queueOfInvite, refuseInvites } from './joins.ts'
import { onRoster } from '../state.ts'
import { isWelcomed } from '../members/welcomed.ts'

/** Maximum number of invites that a channel keeps beyond the limit of open ones. */
const MAX_ENDED = 1000
/** Maximum number of invites that one sweep deletes. */
const SWEEP_INVITES = 1024

/**
 * Stores an invite of the channel's owner, which may register it again with more uses if some failed. Only the owner
 * may: the number of open invites per channel is limited, and others could use it up.
 */
export function registerInvite(context: Context, request: StoreRequest<'registerInvite'>): Done | Refusal {
  const { rows } = context
  const { actor, invite, maxInvites, now } = request
  const admitted = admit(context, actor, invite.channel)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
  if (actor.agent !== channel.owner) return refuse('not_allowed', "Only the channel's owner can register an invite.")
  const known = rows.invites.get(invite.id)
  if (known) {
    const isSame = known.agent === actor.agent && known.channel === invite.channel && known.members === invite.members
    if (!isSame) {
      return refuse('invite_invalid', 'This invite id is already in use. Create another invite.')
    }
    if (invite.maxUses > known.maxUses) rows.invites.put({ ...known, maxUses: invite.maxUses })
    return { done: true }
  }
  if (rows.invites.countActive(channel, now) >= maxInvites) {
    return refuse('rate_limited', `The channel has reached its limit of ${maxInvites} open invites. Revoke one first.`)
  }
  noteAction(context, actor, channel)
  rows.invites.put({ ...invite, agent: actor.agent, uses: 0, revoked: false })
  const dropped = rows.invites.dropEnded(channel, now, maxInvites + MAX_ENDED)
  // Requests for the owner expire soon anyway.
  refuseInvites(context, channel.id, dropped, 'invite_used_up')
  return { done: true }
}

export function revokeInvite(context: Context, { agent, id, now }: StoreRequest<'revokeInvite'>): Done | Refusal {
  const { rows } = context
  const invite = rows.invites.get(id)
  if (invite?.agent !== agent) return refuse('not_found')
  if (!invite.revoked) rows.invites.put({ ...invite, revoked: true, expiresAt: Math.min(invite.expiresAt, now) })
  refuseInvites(context, queueOfInvite(invite), [id], 'invite_revoked')
  return { done: true }
}

/** A stored invite and, for a joiner, whether it can use it and whether it was already added. */
export function findInvite({ rows }: Context, { id, joiner }: StoreRequest<'invite'>): StoreResult<'invite'> {
  const invite = rows.invites.get(id)
  if (!invite || !joiner) return { invite }
  const joined = onRoster(rows.channels.glance(invite.channel, joiner.agent)?.member)
  const welcomed = isWelcomed(rows, invite.channel, joiner.agent)
  return { invite, ended: whyEnded(invite, joiner.now), joined, welcomed }
}

/** Deletes invites that expired before `since`, a limited number at a time. */
export function expireInvites({ rows }: Context, since: Time): void {
  rows.invites.expire(since, SWEEP_INVITES)
}
