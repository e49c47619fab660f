/** What the relay knows about invites: who registered one, when it expires, and how often it was used. */
import type { Done, Refusal, StoreRequest, StoreResult } from '../../ports.ts'
import { type Context, admit, isRefusal, noteAction, refuse } from './context.ts'
import { onRoster } from './state.ts'

/** Stores an invite of a member. The same agent may register it again, with more uses if some of them failed. */
export function registerInvite(context: Context, request: StoreRequest<'registerInvite'>): Done | Refusal {
  const { rows } = context
  const { actor, invite, maxInvites, now } = request
  const admitted = admit(context, actor, invite.channel)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
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
  return { done: true }
}

/** Revokes an invite. */
export function revokeInvite({ rows }: Context, { agent, id }: StoreRequest<'revokeInvite'>): Done | Refusal {
  const invite = rows.invite(id)
  if (invite?.agent !== agent) return refuse('not_found')
  if (!invite.revoked) rows.putInvite({ ...invite, revoked: true })
  return { done: true }
}

/** A stored invite. It counts as revoked while its agent is off the roster, because no one else can answer it. */
export function findInvite({ rows }: Context, { id, agent }: StoreRequest<'invite'>): StoreResult<'invite'> {
  const invite = rows.invite(id)
  if (!invite) return { invite }
  const member = agent === undefined ? undefined : rows.glance(invite.channel, agent)?.member
  const joiner = agent === undefined ? {} : { welcomed: onRoster(member) && member.welcome !== undefined }
  if (invite.revoked) return { invite, ...joiner }
  return { invite: { ...invite, revoked: !onRoster(rows.glance(invite.channel, invite.agent)?.member) }, ...joiner }
}
