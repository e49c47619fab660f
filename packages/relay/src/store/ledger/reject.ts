/** RejectCommit and LiftBar: how a channel gets over a commit that its members find invalid. */
import { MAX_MEMBERS } from '@static/protocol'
import type { Done, Refusal, StoreRequest, StoreResult } from '../../ports.ts'
import { type Context, admit, isRefusal, mayAct, noteAction, refuse, senderOf, touchSender } from './context.ts'
import { letGo } from './retention.ts'
import { type LeftOut, applyLeftOut, hadVote, leaveOut } from './roster.ts'
import { type Channel, type Slot, type Snapshot, findMember, isInGroup } from './state.ts'

/** What undone removals may bring a group to: later commits may have filled it again. */
const MAX_UNDONE_MEMBERS = 2 * MAX_MEMBERS

/** Takes the owner's word or a member's vote that a commit is invalid; the last one needed undoes what it did. */
export function reject(
  context: Context,
  { actor, channel: id, slot: number }: StoreRequest<'reject'>,
): StoreResult<'reject'> {
  const { rows } = context
  const channel = rows.channel(id)
  const slot = channel && rows.slot(channel, number)
  if (!channel || !slot || !findMember(channel, actor.agent)) return refuse('not_found')
  const barrier = mayAct(actor, channel)
  if (barrier) return barrier
  if (number < channel.settled) return refuse('not_found', 'The owner has reset the roster since that commit.')
  const owner = actor.agent === channel.owner
  if (!owner && slot.sender === channel.owner) {
    return refuse('not_allowed', "Members cannot vote against a commit of the channel's owner.")
  }
  // One that a lying commit has removed has a vote, too.
  if (!owner && !hadVote(context, channel, actor.agent, slot)) {
    return refuse(
      'not_allowed',
      'Only members from before a commit can reject it, and only if the owner confirmed them.',
    )
  }

  const needed = Math.floor(slot.rosterSize / 2) + 1
  if (slot.rejected) return { rejected: true, votes: slot.voters.length, needed }
  // A vote that is repeated changes nothing, so nothing is written.
  if (!owner && slot.voters.includes(actor.agent)) return { rejected: false, votes: slot.voters.length, needed }
  const voters = [...slot.voters.filter((voter) => voter !== actor.agent), actor.agent]
  const rejected = owner || voters.length >= needed
  const leftOut = rejected ? rows.turnsOf(channel, number).map((turn) => leaveOut(rows, channel, turn)) : []
  if (growth(leftOut) > Math.max(0, MAX_UNDONE_MEMBERS - channel.members.size)) {
    return refuse('group_full', 'With those that come back the group would be too large: remove some first.')
  }
  noteAction(context, actor, channel)
  rows.putSlot(channel, { ...slot, voters, rejected })
  if (rejected) undo(context, channel, slot, leftOut)
  return { rejected, votes: voters.length, needed }
}

function growth(leftOut: readonly LeftOut[]): number {
  const count = (snapshot: Snapshot | undefined): number => (isInGroup(snapshot?.member) ? 1 : 0)
  return leftOut.reduce((sum, { before, after }) => sum + count(after) - count(before), 0)
}

/** The log stays as it is: only the roster change is undone, and the sender barred, unless it is the owner. */
function undo(context: Context, channel: Channel, slot: Slot, leftOut: readonly LeftOut[]): void {
  for (const each of leftOut) applyLeftOut(context, channel, each)
  if (slot.sender !== channel.owner) {
    const sender = senderOf(channel, slot.sender)
    sender.barred = true
    touchSender(context, channel, sender)
  }
  letGo(context, channel)
  context.emit({
    type: 'rejected',
    channel: channel.id,
    slot: slot.slot,
    sender: slot.sender,
    undoneAdds: leftOut.filter(({ before, after }) => isGone(before, after)).map(({ agent }) => agent),
    undoneRemoves: leftOut.filter(({ before, after }) => isGone(after, before)).map(({ agent }) => agent),
  })
}

/** Whether a membership is not there any more, or another one. */
function isGone(one: Snapshot | undefined, other: Snapshot | undefined): boolean {
  return isCurrent(one) && !(isCurrent(other) && other.member.from === one.member.from)
}

function isCurrent(snapshot: Snapshot | undefined): snapshot is Snapshot {
  return snapshot !== undefined && snapshot.member.ended === undefined
}

/** Lets an agent commit again. */
export function liftBar(context: Context, { actor, channel: id, agent }: StoreRequest<'liftBar'>): Done | Refusal {
  const admitted = admit(context, actor, id)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
  if (actor.agent !== channel.owner) return refuse('not_allowed', 'Only the owner lifts a bar.')
  noteAction(context, actor, channel)
  const sender = channel.senders.get(agent)
  if (sender?.barred) {
    sender.barred = false
    touchSender(context, channel, sender)
    context.emit({ type: 'barLifted', channel: channel.id, agent })
  }
  return { done: true }
}
