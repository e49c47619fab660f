/** SendMessage: its checks in order, who pays, and the entry. */
import { MAX_CIPHERTEXT_BYTES } from '@static/protocol'
import {
  type Account,
  accountKey,
  type Actor,
  type Refusal,
  type StoreRequest,
  type StoreResult,
  type Time,
  type Unpaid,
} from '../../../ports.ts'
import { beginHour, isThisHour } from '../room/allowance.ts'
import { type Context, mayAct, noteAction, refuse, senderOf, touchSender } from '../context.ts'
import { messageDraft } from './draft.ts'
import { addEntry } from './log.ts'
import { sendFile, unsendable } from '../files/files.ts'
import { countGuest, guestRefusal } from '../room/guests.ts'
import { cut, schedule } from '../room/retention.ts'
import { findRoom, pressureOn } from '../room/room.ts'
import { ENTRY_OVERHEAD } from '../rows/log.ts'
import type { IdKey } from '../rows/ids.ts'
import { type Channel, type Sender, findMember, isUnwelcomed } from '../state.ts'

/** Control messages use only the two smallest padded sizes. */
const MAX_CONTROL_BYTES = 4977

/** What remains to be done for an accepted message. */
interface Accepted {
  readonly sender: Sender
  /** The index up to which the log must be cut first. */
  readonly through: number
  readonly free: boolean
}

/** Appends a message to the log, unless its id is already known. */
export function append(context: Context, request: StoreRequest<'append'>): StoreResult<'append'> {
  const { rows, retention } = context
  const { actor, now } = request
  const channel = rows.channels.get(request.channel)
  if (!channel) return refuse('not_found')
  const key: IdKey = { kind: 'message', agent: actor.agent, id: request.messageId }
  const since = now - retention.messageIdMs

  // A known id takes precedence over every refusal. For a message that passes the checks, `addId` tests and stores it.
  const verdict = judge(context, channel, request)
  if (!('free' in verdict)) {
    const known = rows.ids.find(channel, key, since)
    return known ? { index: known.index, charged: false } : verdict
  }
  const index = channel.last.index + 1
  const known = rows.ids.add(channel, key, { index, head: channel.last.slot, at: now }, since)
  if (known) return { index: known.index, charged: false }

  const { sender, through, free } = verdict
  if (cut(context, channel, through) > 0) schedule(context, channel)
  sender.counter = request.counter
  if (free) countFree(sender, now)
  else if (!actor.account) countGuest(channel, now)
  touchSender(context, channel, sender)
  noteAction(context, actor, channel)
  addEntry(context, channel, messageDraft(request), request.ciphertext)
  sendFile(context, request, index)
  const pressure = pressureOn(context, channel, sender)
  return pressure ? { index, charged: !free, pressure } : { index, charged: !free }
}

/** Every check of a message except that its id is new. Changes nothing. */
function judge(context: Context, channel: Channel, request: StoreRequest<'append'>): Accepted | Unpaid | Refusal {
  const { actor, control, ciphertext, now } = request
  const member = findMember(channel, actor.agent)
  if (!member || isUnwelcomed(member)) return refuse('not_found')
  if (member.ended) return refuse('removed')
  const barrier = mayAct(actor, channel)
  if (barrier) return barrier

  const sender = senderOf(channel, actor.agent)
  if (request.counter !== sender.counter + 1) return { refused: 'out_of_order', lastCounter: sender.counter }
  const head = channel.last.slot
  if (request.slot !== head) return { refused: 'epoch_mismatch', head }
  if (ciphertext.length === 0) return refuse('invalid_request', 'The message is empty.')
  if (ciphertext.length > (control ? MAX_CONTROL_BYTES : MAX_CIPHERTEXT_BYTES)) return refuse('too_large')
  const unsent = unsendable(context, request)
  if (unsent) return unsent

  const room = findRoom(context, channel, sender, ciphertext.length + ENTRY_OVERHEAD)
  if (typeof room !== 'number') return room
  const free = control && (isThisHour(sender, now) ? sender.free : 0) < context.retention.freeControl
  if (!free) {
    const unpaid = payment(channel, actor, request.paid, now)
    if (unpaid) return unpaid
  }
  return { sender, through: room, free }
}

function payment(channel: Channel, actor: Actor, paid: Account | undefined, now: Time): Unpaid | Refusal | undefined {
  const refusal = actor.account ? undefined : guestRefusal(channel, now)
  if (refusal) return refusal
  // A node may remember a former owner as the payer.
  const unpaid = payer(channel, actor)
  return paid && accountKey(paid) === accountKey(unpaid) ? undefined : { unpaid }
}

/** The owner pays for messages of guests. */
function payer(channel: Channel, actor: Actor): Account {
  return actor.account ?? channel.account
}

function countFree(sender: Sender, now: Time): void {
  beginHour(sender, now)
  sender.free += 1
}
