/** RejectCommit and LiftBar: how a channel recovers from a commit that its members find invalid. */
import { MAX_MEMBERS } from '@static/protocol'
import type { Done, Refusal, StoreRequest, StoreResult } from '../../../ports.ts'
import { type Context, admit, isRefusal, mayAct, noteAction, refuse, senderOf, touchSender } from '../context.ts'
import { dropStrayStandby, isTakeOver, judgeReturn, restoreOwnership } from './ownership.ts'
import { returnUses } from '../invites/invite-uses.ts'
import { letGo } from '../room/retention.ts'
import { type LeftOut, applyLeftOut, electorate, hasVote, leaveOut } from '../members/roster.ts'
import { type Channel, type Slot, type Snapshot, findMember, isInGroup } from '../state.ts'

/** Maximum size of a group after undone removals: later commits may have filled the group again. */
const MAX_UNDONE_MEMBERS = 2 * MAX_MEMBERS

/** Counts a member's vote that a commit is invalid. The owner's vote, or enough others, undoes its roster changes. */
export function reject(
  context: Context,
  { actor, channel: id, slot: number }: StoreRequest<'reject'>,
): StoreResult<'reject'> {
  const { rows } = context
  const channel = rows.channels.get(id)
  const slot = channel && rows.slots.get(channel, number)
  if (!channel || !slot || !findMember(channel, actor.agent)) return refuse('not_found')
  const barrier = mayAct(actor, channel)
  if (barrier) return barrier
  if (number < channel.settled) return refuse('not_found', 'The owner has reset the roster since that commit.')
  // No one undoes a change of the owner alone: neither the former one nor the new one.
  const alone = actor.agent === channel.owner && !isTakeOver(slot)
  if (!alone && slot.byOwner) {
    return refuse('not_allowed', "Members cannot vote against a commit of the channel's owner.")
  }
  if (!alone && !hasVote(channel, actor.agent, slot)) {
    return refuse('not_allowed', 'Only members that the owner had vouched for before the commit can reject it.')
  }

  // Members whose removal has since been undone were not counted at the commit.
  const size = Math.max(slot.vouchedSize, electorate(channel, number).length)
  const needed = Math.floor(size / 2) + 1
  if (slot.rejected) return { rejected: true, votes: slot.voters.length, needed }
  const voters = slot.voters.filter((voter) => hasVote(channel, voter, slot))
  // A repeated vote changes nothing, so nothing is written.
  if (voters.includes(actor.agent)) return { rejected: false, votes: voters.length, needed }
  voters.push(actor.agent)
  const rejected = alone || voters.length >= needed
  const leftOut = rejected ? rows.slots.turnsOf(channel, number).map((turn) => leaveOut(rows, channel, turn)) : []
  const isFinal = rejected ? judgeReturn(context, channel, slot) : undefined
  if (isFinal) return isFinal
  if (growth(leftOut) > Math.max(0, MAX_UNDONE_MEMBERS - channel.members.size)) {
    return refuse('group_full', 'Undoing the removals would make the group too large. Remove some members first.')
  }
  noteAction(context, actor, channel)
  rows.slots.put(channel, { ...slot, voters, rejected })
  if (rejected) undo(context, channel, slot, leftOut)
  return { rejected, votes: voters.length, needed }
}

function growth(leftOut: readonly LeftOut[]): number {
  const count = (snapshot: Snapshot | undefined): number => (isInGroup(snapshot?.member) ? 1 : 0)
  return leftOut.reduce((sum, { before, after }) => sum + count(after) - count(before), 0)
}

/** Undoes what it did to roster and ownership, returns uses, and bars the sender unless it is the owner. The log stays. */
function undo(context: Context, channel: Channel, slot: Slot, leftOut: readonly LeftOut[]): void {
  for (const each of leftOut) applyLeftOut(context, channel, each)
  restoreOwnership(context, channel, slot)
  dropStrayStandby(context, channel)
  returnUses(context, channel, slot)
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

/** Whether the membership in `one` has ended or was replaced in `other`. */
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
  if (actor.agent !== channel.owner) return refuse('not_allowed', 'Only the owner can lift a bar.')
  noteAction(context, actor, channel)
  const sender = channel.senders.get(agent)
  if (sender?.barred) {
    sender.barred = false
    touchSender(context, channel, sender)
    context.emit({ type: 'barLifted', channel: channel.id, agent })
  }
  return { done: true }
}
