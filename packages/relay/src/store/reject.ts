/** RejectCommit and LiftBar: how a channel gets over a commit that its members find invalid. */
import type { Done, AgentId, Refusal, Request, Result } from '../ports.ts'
import {
  type Context,
  admit,
  isRefusal,
  mayAct,
  noteAction,
  refuse,
  senderOf,
  touchMember,
  touchSender,
  touchSlot,
} from './context.ts'
import { letGo } from './retention.ts'
import { type Channel, type Member, type Slot, onRoster } from './state.ts'

/** Takes the owner's word or a member's vote that a commit is invalid; the last one needed undoes what it did. */
export function reject(context: Context, { actor, channel: id, slot: number }: Request<'reject'>): Result<'reject'> {
  const channel = context.rows.channel(id)
  const member = channel?.members.get(actor.agent)
  const slot = channel?.slots.get(number)
  if (!channel || !member || !slot) return refuse('not_found')
  const barrier = mayAct(actor, channel, member)
  if (barrier) return barrier
  const owner = actor.agent === channel.owner
  // One that a lying commit has removed has a vote, too.
  if (!owner && !wasOnRoster(member, slot)) {
    return refuse('not_allowed', 'Only those who were members before a commit can reject it.')
  }

  const needed = Math.floor(slot.rosterSize / 2) + 1
  if (!slot.rejected) {
    noteAction(context, actor, channel, member)
    if (!slot.voters.includes(actor.agent)) slot.voters = [...slot.voters, actor.agent]
    slot.rejected = owner || slot.voters.length >= needed
    touchSlot(context, channel, number)
    if (slot.rejected) undo(context, channel, slot)
  }
  return { rejected: slot.rejected, votes: slot.voters.length, needed }
}

function wasOnRoster({ from, ended }: Member, { position }: Slot): boolean {
  return from < position.index && (ended === undefined || ended.position.index >= position.index)
}

/** The log stays as it is: only the roster change is undone, and the sender barred. */
function undo(context: Context, channel: Channel, slot: Slot): void {
  const undoneAdds = slot.adds.filter((agent) => undoAdd(context, channel, slot, agent))
  const undoneRemoves = slot.removed
    .filter((removed) => undoRemove(context, channel, removed))
    .map(({ member }) => member.agent)
  const sender = senderOf(channel, slot.sender)
  sender.barred = true
  touchSender(context, channel, sender)
  letGo(context, channel)
  context.emit({
    type: 'rejected',
    channel: channel.id,
    slot: slot.slot,
    sender: slot.sender,
    undoneAdds,
    undoneRemoves,
  })
}

/** Whether an agent has gone off the roster by this. */
function undoAdd(context: Context, channel: Channel, slot: Slot, agent: AgentId): boolean {
  const member = channel.members.get(agent)
  if (member?.from !== slot.position.index) return false
  channel.members.delete(agent)
  touchMember(context, channel, member)
  context.rows.dropWelcome(channel, agent)
  return onRoster(member)
}

/** Whether an agent is back on the roster by this. One that had left stays away, and is still to be removed. */
function undoRemove(context: Context, channel: Channel, { member: before, counter }: Slot['removed'][number]): boolean {
  const now = channel.members.get(before.agent)
  // A later commit has added it again: this one has no say any more.
  if (now && now.from !== before.from) return false
  const member = now ?? { ...before }
  member.ended = before.ended
  channel.members.set(member.agent, member)
  touchMember(context, channel, member)
  const sender = senderOf(channel, member.agent)
  sender.counter = counter
  touchSender(context, channel, sender)
  return onRoster(member)
}

/** Lets an agent commit again. */
export function liftBar(context: Context, { actor, channel: id, agent }: Request<'liftBar'>): Done | Refusal {
  const admitted = admit(context, actor, id)
  if (isRefusal(admitted)) return admitted
  const { channel, member } = admitted
  if (actor.agent !== channel.owner) return refuse('not_allowed', 'Only the owner lifts a bar.')
  noteAction(context, actor, channel, member)
  const sender = channel.senders.get(agent)
  if (sender?.barred) {
    sender.barred = false
    touchSender(context, channel, sender)
    context.emit({ type: 'barLifted', channel: channel.id, agent })
  }
  return { done: true }
}
