/**
 * The uses of invites. The agent that registered an invite for itself counts its uses. Members that share an invite may
 * not know of each other's uses, so the relay refuses a commit beyond the last one.
 */
import { ERRORS, toHex } from '@static/protocol'
import type { Actor, AgentId, Invite, Refusal, Time, WelcomeFields } from '../../../ports.ts'
import { type Context, refuse } from '../context.ts'
import type { Channel, Slot } from '../state.ts'

/** Why an invite cannot be used that many more times; undefined if it can. */
export function whyEnded({ revoked, expiresAt, uses, maxUses }: Invite, now: Time, count = 1): Refusal | undefined {
  if (revoked) return refuse('invite_revoked')
  if (expiresAt <= now) {
    const problem = `The invite token expired at ${new Date(expiresAt).toISOString()}.`
    return refuse('invite_expired', `${problem} ${ERRORS.invite_expired.remedy}`)
  }
  if (uses + count <= maxUses) return undefined
  const left = Math.max(0, maxUses - uses)
  const problem =
    left === 0
      ? `The invite token has no uses left: ${maxUses} of ${maxUses} are taken.`
      : `The invite token has ${left} of ${maxUses} uses left, and the commit needs ${count}.`
  return refuse('invite_used_up', `${problem} ${ERRORS.invite_used_up.remedy}`)
}

/** Checks the invites for members that a commit's Welcomes name. */
export function judgeUses(
  { rows }: Context,
  channel: Channel,
  actor: Actor,
  welcomes: readonly WelcomeFields[],
  now: Time,
): Refusal | undefined {
  for (const [id, count] of usesOf(welcomes)) {
    const invite = rows.invites.get(id)
    if (!isForMembers(invite, channel)) continue
    if (!actor.account) return refuse('api_key_required', 'Only members with an account can admit with this invite.')
    const refusal = whyEnded(invite, now, count)
    if (refusal) return refusal
  }
  return undefined
}

/** Whether members of a channel may admit with an invite. */
export function isForMembers(invite: Invite | undefined, channel: Pick<Channel, 'id'>): invite is Invite {
  return invite?.channel === channel.id && invite.members
}

/** The agents that Welcomes admit with invites for members: the sender's agent does so on its own. */
export function invitedForMembers(
  { rows }: Context,
  channel: Channel,
  welcomes: readonly WelcomeFields[],
): ReadonlySet<AgentId> {
  const named = welcomes.filter(({ inviteId }) => {
    return inviteId.length > 0 && isForMembers(rows.invites.get(toHex(inviteId)), channel)
  })
  return new Set(named.map(({ agent }) => agent))
}

/**
 * Counts the uses of a commit: of the sender's own invites, so that no one else can use them up, and of invites for
 * members. Returns the latter, because a rejection gives them back.
 */
export function countUses(
  { rows }: Context,
  channel: Channel,
  sender: AgentId,
  welcomes: readonly WelcomeFields[],
): Slot['uses'] {
  const returnable: (readonly [string, number])[] = []
  for (const [id, count] of usesOf(welcomes)) {
    const invite = rows.invites.get(id)
    if (invite?.channel !== channel.id || (!invite.members && invite.agent !== sender)) continue
    rows.invites.put({ ...invite, uses: invite.uses + count })
    if (invite.members) returnable.push([id, count])
  }
  return returnable.length > 0 ? returnable : undefined
}

/** Returns the uses that a rejected commit has counted. */
export function returnUses({ rows }: Context, channel: Channel, { uses = [] }: Slot): void {
  for (const [id, count] of uses) {
    const invite = rows.invites.get(id)
    if (isForMembers(invite, channel)) rows.invites.put({ ...invite, uses: Math.max(0, invite.uses - count) })
  }
}

/** How many of the Welcomes name each invite. */
function usesOf(welcomes: readonly WelcomeFields[]): ReadonlyMap<string, number> {
  const uses = new Map<string, number>()
  for (const { inviteId } of welcomes) {
    if (inviteId.length === 0) continue
    const id = toHex(inviteId)
    uses.set(id, (uses.get(id) ?? 0) + 1)
  }
  return uses
}
