/** Vouch: the owner stands behind members that its commits did not vouch for. */
import type { Done, Refusal, StoreRequest } from '../../../ports.ts'
import { type Context, admit, isRefusal, noteAction, refuse, touchMember } from '../context.ts'
import type { Member } from '../state.ts'

/** Lets members count from the next commit on: their votes, their allowances, and the entries that they need. */
export function vouch(context: Context, request: StoreRequest<'vouch'>): Done | Refusal {
  const { actor, slot } = request
  const admitted = admit(context, actor, request.channel)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
  if (actor.agent !== channel.owner)
    return refuse('not_allowed', 'Only the owner of the channel can vouch for members.')
  const head = channel.last.slot
  if (slot !== head) return { refused: 'epoch_mismatch', head }
  const members: Member[] = []
  for (const agent of request.agents) {
    const member = channel.members.get(agent)
    if (!member || member.ended) return refuse('invalid_request', `Agent ${agent} is not in the channel.`)
    members.push(member)
  }

  noteAction(context, actor, channel)
  for (const member of members) {
    if (member.vouched !== undefined) continue
    member.vouched = head
    touchMember(context, channel, member)
  }
  channel.lag = undefined
  return { done: true }
}
