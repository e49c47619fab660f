/** The context of every operation, and shared checks. */
import { type ErrorCode, fromHex, type Hash } from '@static/protocol'
import type { Actor, ChannelId, Refusal, Retention, StoreEvent } from '../../ports.ts'
import type { Rows } from './rows/rows.ts'
import { type Channel, type Member, type Sender, findMember, isUnwelcomed } from './state.ts'

/** The engine's rows, the settings, and the event sink. */
export interface Context {
  readonly rows: Rows
  readonly hash: Hash
  readonly retention: Retention
  readonly emit: (event: StoreEvent) => void
}

/** A member in its channel. */
export interface Admitted {
  readonly channel: Channel
  readonly member: Member
}

export function refuse(refused: ErrorCode, message?: string): Refusal {
  return message === undefined ? { refused } : { refused, message }
}

export function isRefusal(answer: object): answer is Refusal {
  return 'refused' in answer
}

/** The actor as a member of a channel, or why it is not admitted. Changes nothing. */
export function admit({ rows }: Context, actor: Actor, id: ChannelId): Admitted | Refusal {
  const channel = rows.channels.get(id)
  const member = channel && findMember(channel, actor.agent)
  if (!channel || !member || isUnwelcomed(member)) return refuse('not_found')
  if (member.ended) return refuse('removed')
  return mayAct(actor, channel) ?? { channel, member }
}

/** Why an agent cannot act in a channel with its account, or without one; undefined if it can. */
export function mayAct(actor: Actor, channel: Channel): Refusal | undefined {
  if (actor.account && actor.account.mode !== channel.account.mode) return refuse('mode_mismatch')
  if (!actor.account && channel.senders.get(actor.agent)?.acted) return refuse('api_key_required')
  return undefined
}

/** Records that an agent has acted here for an account. Called once its action is accepted. */
export function noteAction(context: Context, actor: Actor, channel: Channel): void {
  if (!actor.account) return
  const sender = senderOf(channel, actor.agent)
  if (sender.acted) return
  sender.acted = true
  sender.seen = channel.last.index
  touchSender(context, channel, sender)
}

/** The sender record of an agent; created if there is none. */
export function senderOf(channel: Pick<Channel, 'senders' | 'last'>, agent: string): Sender {
  let sender = channel.senders.get(agent)
  if (!sender) {
    sender = {
      agent,
      agentBytes: fromHex(agent),
      counter: 0,
      barred: false,
      acted: false,
      seen: channel.last.index,
      hour: 0,
      free: 0,
      commitBytes: 0,
      bytes: 0,
      entries: 0,
    }
    channel.senders.set(agent, sender)
  }
  return sender
}

/** Marks the channel's own fields as changed. */
export function touch({ rows }: Context, channel: Channel): void {
  channel.changes.channel = true
  rows.channels.changed(channel)
}

/** Marks a member as changed or deleted. */
export function touchMember({ rows }: Context, channel: Channel, member: { readonly agent: string }): void {
  channel.changes.members.add(member.agent)
  rows.channels.changed(channel)
}

/** Marks a sender as changed or deleted. */
export function touchSender({ rows }: Context, channel: Channel, sender: { readonly agent: string }): void {
  channel.changes.senders.add(sender.agent)
  rows.channels.changed(channel)
}
