/** What the relay knows about invites: who registered one, when it expires, and how often it was used. */
import type { Done, Refusal, StoreRequest, StoreResult, Time } from '../../ports.ts'
import { type Context, admit, isRefusal, noteAction, refuse } from './context.ts'
import { refuseInvite } from './joins.ts'
import { onRoster } from './state.ts'

/** Maximum number of invites that a channel keeps beyond the limit of open ones. */
const MAX_ENDED = 1000
/** Maximum number of invites that one sweep deletes. */
const SWEEP_INVITES = 1024

/**
 * Stores an invite of the channel's owner, which may register it again, with more uses if some of them failed. Only the
 * owner, because the number of open invites per channel is limited: others could use it up.
 */
export function registerInvite(context: Context, request: StoreRequest<'registerInvite'>): Done | Refusal {
  const { rows } = context
  const { actor, invite, maxInvites, now } = request
  const admitted = admit(context, actor, invite.channel)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
  if (actor.agent !== channel.owner) return refuse('not_allowed', "Only the channel's owner can register an invite.")
  const known = rows.invite(invite.id)
  if (known) {
    if (known.agent !== actor.agent || known.channel !== invite.channel) {
      return refuse('invite_invalid', 'This invite id is already in use. Create another invite.')
    }
    if (invite.maxUses > known.maxUses) rows.putInvite({ ...known, maxUses: invite.maxUses })
    return { done: true }
  }
  if (rows.countActiveInvites(channel, now) >= maxInvites) {
    return refuse('rate_limited', `The channel has reached its limit of ${maxInvites} open invites. Revoke one first.`)
  }
  noteAction(context, actor, channel)
  rows.putInvite({ ...invite, agent: actor.agent, uses: 0, revoked: false })
  rows.dropEndedInvites(channel, now, maxInvites + MAX_ENDED)
  return { done: true }
}

/** Revokes an invite, which also expires it. */
export function revokeInvite(context: Context, { agent, id, now }: StoreRequest<'revokeInvite'>): Done | Refusal {
  const { rows } = context
  const invite = rows.invite(id)
  if (invite?.agent !== agent) return refuse('not_found')
  if (!invite.revoked) rows.putInvite({ ...invite, revoked: true, expiresAt: Math.min(invite.expiresAt, now) })
  refuseInvite(context, agent, id)
  return { done: true }
}

/** A stored invite, and whether a Welcome is pending for a joiner. */
export function findInvite({ rows }: Context, { id, agent }: StoreRequest<'invite'>): StoreResult<'invite'> {
  const invite = rows.invite(id)
  if (!invite || agent === undefined) return { invite }
  const member = rows.glance(invite.channel, agent)?.member
  return { invite, welcomed: onRoster(member) && member.welcome !== undefined }
}

/** Deletes invites that expired before `since`, a limited number at a time. */
export function expireInvites({ rows }: Context, since: Time): void {
  rows.expireInvites(since, SWEEP_INVITES)
}
