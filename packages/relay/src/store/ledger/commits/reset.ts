/**
 * ResetRoster: the owner's signed statement of who is in the group, for when the relay's roster no longer matches it.
 * Earlier declarations, votes and undone commits no longer count.
 */
import { MAX_MEMBERS, toHex } from '@static/protocol'
import type { AgentId, Done, Refusal, StoreRequest } from '../../../ports.ts'
import {
  type Context,
  admit,
  isRefusal,
  noteAction,
  refuse,
  senderOf,
  touch,
  touchMember,
  touchSender,
} from '../context.ts'
import { positionAt } from '../log/log.ts'
import { letGo } from '../room/retention.ts'
import { hold } from '../room/room.ts'
import { TURN_BYTES } from '../rows/slots.ts'
import { type Channel, type Member, type Turn, findMember, forgetMember, onRoster, placeMember } from '../state.ts'
import { dropWelcome } from '../members/welcomes.ts'
import { dropStrayStandby } from './ownership.ts'

/** Sets the roster to exactly the agents that the owner names. */
export function resetRoster(context: Context, request: StoreRequest<'resetRoster'>): Done | Refusal {
  const { actor, position } = request
  const admitted = admit(context, actor, request.channel)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
  if (actor.agent !== channel.owner) return refuse('not_allowed', "Only the channel's owner can reset its roster.")
  const agents = new Set(request.agents)
  if (agents.size < request.agents.length) return refuse('invalid_request', '`agent_ids` names an agent twice.')
  if (!agents.has(channel.owner)) return refuse('invalid_request', '`agent_ids` must name the owner.')
  if (agents.size > MAX_MEMBERS) return refuse('group_full')
  const vouched = new Set([channel.owner, ...request.vouched])
  // Only a vouched member can take over, and the owner still trusts this one with the channel.
  if (channel.standby !== undefined && agents.has(channel.standby)) vouched.add(channel.standby)
  if (new Set(request.vouched).size < request.vouched.length || ![...vouched].every((agent) => agents.has(agent))) {
    return refuse('invalid_request', '`vouched` must name agents of `agent_ids`, and each once.')
  }
  const head = channel.last.slot
  const known = position.slot === head ? positionAt(context, channel, position.index) : undefined
  if (known?.slot !== head) return { refused: 'epoch_mismatch', head }
  if (toHex(known.hash) !== toHex(position.hash)) {
    return refuse(
      'not_allowed',
      `The chain hash of entry ${position.index} differs from the relay's: the log has forked.`,
    )
  }

  noteAction(context, actor, channel)
  const dropped = [...channel.members.keys()].filter((agent) => !agents.has(agent))
  for (const agent of dropped) drop(context, channel, agent)
  const returned = [...agents].filter((agent) => admitAgain(context, channel, agent, vouched.has(agent)))
  // Earlier turns no longer count. They are deleted with their slots, because there can be many.
  hold(context, channel, -context.rows.slots.dropTurns(channel, head) * TURN_BYTES)
  channel.settled = head
  dropStrayStandby(context, channel)
  touch(context, channel)
  letGo(context, channel)
  context.emit({ type: 'rosterReset', channel: channel.id, dropped, returned })
  return { done: true }
}

function drop(context: Context, channel: Channel, agent: AgentId): void {
  forgetMember(channel, agent)
  dropWelcome(context, channel, agent)
  touchMember(context, channel, { agent })
}

/** Puts an agent on the roster if it is not there. One that has left stays off it until a commit removes it. */
function admitAgain(context: Context, channel: Channel, agent: AgentId, isVouched: boolean): boolean {
  const known = findMember(channel, agent)
  const { from, cursor, ended } = known ?? lastStay(context, channel, agent)
  const left = ended?.notice ? { ...ended, pending: true } : undefined
  const { welcome, receipt, sponsor } = known ?? {}
  // Earlier commits can no longer be rejected, so the votes on them do not matter.
  const vouched = isVouched ? channel.last.slot : undefined
  const fields = { sponsor, vouched, welcomed: true, ended: left, cursor, receipt, welcome, earlier: undefined }
  const member: Member = { agent, from, ...fields }
  placeMember(channel, member)
  touchMember(context, channel, member)
  return !onRoster(known) && !left
}

/**
 * Where an agent whose membership was undone resumes: where it was, with its counter; if that is unknown, after the
 * commit that added it, else after the last entry.
 */
function lastStay(context: Context, channel: Channel, agent: AgentId): Pick<Member, 'from' | 'cursor' | 'ended'> {
  let added: Turn | undefined
  for (const turn of context.rows.slots.turnsFrom(channel, agent, 0)) if (turn.adds) added = turn
  if (!added?.undone) {
    const cursor = added?.position ?? channel.last
    return { from: cursor.index, cursor, ended: undefined }
  }
  const sender = senderOf(channel, agent)
  sender.counter = added.undone.counter
  touchSender(context, channel, sender)
  return added.undone.member
}
