/** SendCommit, SendWelcome and Leave: the operations that change the roster, and their entries. */
import { commitBody, leaveBody, toHex } from '@static/protocol'
import {
  type Account,
  accountKey,
  type AgentId,
  type Refusal,
  type StoreRequest,
  type StoreResult,
  type Time,
  type Unpaid,
  type WelcomeFields,
} from '../../../ports.ts'
import { type Allowed, allowAdds, allowBytes, countAdds, countBytes, sponsorOf } from '../room/allowance.ts'
import { judgePlace, judgeRoster, judgeVouches, judgeWelcomes, removesOnlyLeavers, sizeLimit } from './commit-rules.ts'
import { type Context, admit, isRefusal, noteAction, refuse, touchMember } from '../context.ts'
import { commitDraft, leaveDraft } from '../log/draft.ts'
import { countUses, invitedForMembers, isForMembers, judgeUses } from '../invites/invite-uses.ts'
import { dropJoinsOf } from '../invites/joins.ts'
import { addEntry } from '../log/log.ts'
import { cut, letGo } from '../room/retention.ts'
import { findRoom, hasReserve } from '../room/room.ts'
import { electorate, takeTurn } from '../members/roster.ts'
import { ENTRY_OVERHEAD } from '../rows/log.ts'
import type { IdKey } from '../rows/ids.ts'
import type { NewWelcome } from '../rows/welcomes.ts'
import { SLOT_BYTES, TURN_BYTES } from '../rows/slots.ts'
import { claimOf, type OwnershipClaim, judgeOwnership, setOwnership, takesOver } from './ownership.ts'
import { judgeSlots, keepSlot } from './slots.ts'
import { type Channel, type Slot, findMember, isInGroup, isUnwelcomed } from '../state.ts'
import { putGroupInfo, putWelcome, welcomeBytes } from '../members/welcomes.ts'

/** A commit in its channel, with its effects and size. */
interface CommitPlan {
  readonly channel: Channel
  readonly adds: readonly AgentId[]
  readonly removes: readonly AgentId[]
  /** Those of `adds` that the owner vouches for. */
  readonly vouches: readonly AgentId[]
  readonly claim: OwnershipClaim
  readonly body: Uint8Array
  /** How much body, Welcomes and their shared GroupInfo count towards the limits. */
  readonly size: number
  /** The number of agents whose membership it changes. */
  readonly turns: number
}

/** What remains to be done for an accepted commit or Welcome. */
interface Accepted extends Allowed {
  /** The index up to which the log must be cut first. */
  readonly through: number
}

/** What a commit or Welcome takes up. */
interface BytesClaim {
  readonly size: number
  readonly records: number
  readonly paid: number
  readonly now: Time
  readonly free: boolean
  readonly payer?: Account | undefined
}

/** Logs a commit, changes the roster and stores its Welcomes, if it is the first for the head's slot. */
export function commit(context: Context, request: StoreRequest<'commit'>): StoreResult<'commit'> {
  const { rows, retention } = context
  const { actor, messageId, declaration, now } = request
  const key: IdKey = { kind: 'commit', agent: actor.agent, id: messageId }
  const since = now - retention.messageIdMs
  const known = rows.channels.get(request.channel)
  const answered = known && rows.ids.find(known, key, since)
  if (answered) return { ...answered, units: 0 }

  const admitted = admit(context, actor, request.channel)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
  const body = commitBody(request.commit, declaration)
  const adds = declaration.adds.map((agent) => toHex(agent))
  const removes = declaration.removes.map((agent) => toHex(agent))
  const vouches = declaration.vouches.map((agent) => toHex(agent))
  const plan: CommitPlan = {
    channel,
    adds,
    removes,
    vouches,
    claim: claimOf(request),
    turns: new Set([...removes, ...adds]).size,
    body,
    size: body.length + ENTRY_OVERHEAD + welcomeBytes(request.welcomes) + request.groupInfo.length,
  }
  const verdict = judge(context, plan, request)
  if (!('through' in verdict)) return verdict

  noteAction(context, actor, channel)
  cut(context, channel, verdict.through)
  const answer = take(context, plan, request)
  rows.ids.add(channel, key, { ...answer, at: now }, since)
  return { ...answer, units: verdict.units }
}

/** Every check of a commit except that its id is new. Changes nothing. */
function judge(
  context: Context,
  { channel, adds, removes, vouches, claim, size, turns }: CommitPlan,
  request: StoreRequest<'commit'>,
): Accepted | Unpaid | Refusal {
  const { actor, welcomes, groupInfo, paid, maxChannels, now } = request
  const { agent } = actor
  const isTakeOver = takesOver(channel, claim)
  const free = agent === channel.owner || isTakeOver || removesOnlyLeavers(channel, adds, removes)
  const records = SLOT_BYTES + turns * TURN_BYTES
  const refusal =
    judgePlace(channel, request) ??
    judgeRoster(context, channel, agent, adds, removes, request) ??
    judgeOwnership(context, channel, claim, { maxChannels, size: size + records }) ??
    judgeVouches(channel, agent, adds, vouches) ??
    judgeWelcomes(context, channel, welcomes, groupInfo) ??
    judgeUses(context, channel, actor, welcomes, now) ??
    allowAdds(context, channel, agent, adds.length, now) ??
    (free ? undefined : judgeSlots(context, channel, now))
  const payer = isTakeOver ? actor.account : undefined
  return refusal ?? judgeBytes(context, channel, agent, { size, records, paid, now, free, payer })
}

/**
 * Checks whether there is room, and who pays. With `free`, a full channel is no reason to refuse. `records` is the size
 * of the roster records in addition to `size`; they are not paid for. `payer` is the account of a new owner.
 */
function judgeBytes(
  context: Context,
  channel: Channel,
  agent: AgentId,
  { size, records, paid, now, free, payer }: BytesClaim,
): Accepted | Unpaid | Refusal {
  // Of another account, the room was checked: the channel's bytes become its own.
  const isMoved = payer !== undefined && accountKey(payer) !== accountKey(channel.account)
  const room = isMoved ? channel.base.index : findRoom(context, channel, undefined, size + records)
  if (typeof room !== 'number' && !(free && hasReserve(context, channel, size + records))) return room
  const allowed = allowBytes(context, channel, agent, size, paid, now, payer)
  return 'units' in allowed && !('unpaid' in allowed)
    ? { ...allowed, through: typeof room === 'number' ? room : channel.base.index }
    : allowed
}

/** Logs the commit and applies it. */
function take(
  context: Context,
  { channel, adds, removes, vouches, claim, body, size }: CommitPlan,
  request: StoreRequest<'commit'>,
): { readonly index: number; readonly head: number } {
  const { actor, slot, now } = request
  const { agent: sender } = actor
  const vouchedSize = electorate(channel, slot).length
  const byOwner = sender === channel.owner
  const replaced = setOwnership(context, channel, claim, slot)
  countBytes(context, channel, sender, size, now)
  countAdds(context, channel, sender, adds.length, now)
  const position = addEntry(context, channel, commitDraft(request), body)
  const place = { slot, position, at: now }
  const invited = invitedForMembers(context, channel, request.welcomes)
  for (const agent of new Set([...removes, ...adds])) {
    const change = { removes: removes.includes(agent), adds: adds.includes(agent), notice: undefined }
    const vouched = vouches.includes(agent) ? position.slot : undefined
    // Neither the owner nor a member whose agent admitted the joiner by itself lends its allowance.
    const sponsor = sender === channel.owner || invited.has(agent) ? undefined : sponsorOf(channel, sender)
    takeTurn(context, channel, { agent, ...place, ...change, sponsor, vouched })
  }
  const uses = countUses(context, channel, sender, request.welcomes)
  keepSlot(context, channel, { ...place, sender, byOwner, replaced, vouchedSize, voters: [], rejected: false, uses })
  const shares = request.groupInfo.length > 0
  if (shares) putGroupInfo(context, channel, position.index, request.groupInfo)
  for (const welcome of request.welcomes) keepWelcome(context, channel, { ...welcome, shares }, sender, place)
  letGo(context, channel)
  return { index: position.index, head: position.slot }
}

/** For a leave, which is never refused: drops old entries if that makes enough room. */
function makeRoom(context: Context, channel: Channel, bodyLength: number): void {
  const room = findRoom(context, channel, undefined, bodyLength + ENTRY_OVERHEAD + TURN_BYTES)
  if (typeof room === 'number') cut(context, channel, room)
}

function keepWelcome(
  context: Context,
  channel: Channel,
  fields: WelcomeFields & Pick<NewWelcome, 'shares'>,
  sender: AgentId,
  { slot, position, at }: Pick<Slot, 'slot' | 'position' | 'at'>,
): void {
  const { id, name, owner } = channel
  putWelcome(context, channel, { ...fields, channel: id, name, owner, sender, slot, position }, at)
  const member = channel.members.get(fields.agent)
  if (member) {
    member.welcome = position.index
    member.welcomed = true
    channel.lag = undefined
    touchMember(context, channel, member)
  }
  const inviteId = toHex(fields.inviteId)
  const { invites, transient } = context.rows
  // Not for another channel: anyone with its token could delete the requests of others.
  if (inviteId !== '' && invites.get(inviteId)?.channel === id) {
    transient.joins.drop({ invite: inviteId, agent: fields.agent })
  }
  context.emit({ type: 'welcomed', channel: id, agent: fields.agent, inviteId })
}

/** Stores a Welcome that was not sent with its commit. It puts the joiner on the roster. */
export function welcome(context: Context, request: StoreRequest<'welcome'>): StoreResult<'welcome'> {
  const { actor, slot, welcome: fields, paid, now } = request
  const admitted = admit(context, actor, request.channel)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
  const taken = context.rows.slots.get(channel, slot)
  if (!taken) return refuse('not_found', `The commit of slot ${slot} is unknown or no longer stored.`)
  if (taken.sender !== actor.agent) return refuse('not_allowed', 'Only the sender of a commit can send its Welcomes.')
  const joiner = channel.members.get(fields.agent)
  if (!isInGroup(joiner) || joiner.ended || joiner.from !== taken.position.index) {
    return refuse(
      'invalid_request',
      `Agent ${fields.agent} of the Welcome was not added by the commit of slot ${slot}.`,
    )
  }
  const isInvited = fields.inviteId.length > 0
  if (isInvited && isForMembers(context.rows.invites.get(toHex(fields.inviteId)), channel)) {
    return refuse('not_allowed', 'A Welcome for an invite that members admit with must be sent with its commit.')
  }
  const limit = sizeLimit(channel, actor.agent, 0)
  if (fields.welcome.length > limit) {
    return refuse('too_large', `The Welcome has ${fields.welcome.length} bytes. The limit is ${limit}.`)
  }
  const refusal = judgeWelcomes(context, channel, [fields], new Uint8Array())
  if (refusal) return refusal
  const size = welcomeBytes([fields])
  const verdict = judgeBytes(context, channel, actor.agent, {
    size,
    records: 0,
    paid,
    now,
    free: actor.agent === channel.owner,
  })
  if (!('through' in verdict)) return verdict

  noteAction(context, actor, channel)
  cut(context, channel, verdict.through)
  countBytes(context, channel, actor.agent, size, now)
  keepWelcome(context, channel, { ...fields, shares: false }, actor.agent, { ...taken, at: now })
  letGo(context, channel)
  return { units: verdict.units }
}

/** Takes an agent off the roster at its own signed request. Needs no account, so that every agent can always leave. */
export function leave(context: Context, request: StoreRequest<'leave'>): StoreResult<'leave'> {
  const { actor, channel: id, notice, now } = request
  const channel = context.rows.channels.get(id)
  const member = channel && findMember(channel, actor.agent)
  if (!channel || !member || isUnwelcomed(member)) return refuse('not_found')
  const { ended } = member
  const body = leaveBody(notice)
  if (ended) {
    const same = ended.notice && toHex(leaveBody(ended.notice)) === toHex(body)
    return same ? { index: ended.position.index } : refuse('not_found')
  }
  if (channel.owner === actor.agent)
    return refuse('not_allowed', 'The owner cannot leave its channel. Delete the channel instead.')
  const head = channel.last.slot
  if (notice.slot !== BigInt(head)) return { refused: 'epoch_mismatch', head }

  makeRoom(context, channel, body.length)
  const position = addEntry(context, channel, leaveDraft(request), body)
  const change = { removes: false, adds: false, sponsor: undefined, vouched: undefined, notice }
  takeTurn(context, channel, { agent: actor.agent, slot: head, position, at: now, ...change })
  letGo(context, channel)
  dropJoinsOf(context, channel, actor.agent)
  return { index: position.index }
}
