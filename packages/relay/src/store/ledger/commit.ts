/** SendCommit, SendWelcome and Leave: what changes the roster, and the entries that tell of it. */
import { commitBody, leaveBody, MAX_MEMBERS, MAX_WELCOME_BYTES, maxCommitBytes, toHex } from '@static/protocol'
import type {
  Done,
  AgentId,
  Refusal,
  StoreRequest,
  StoreResult,
  SignedDeclaration,
  WelcomeFields,
} from '../../ports.ts'
import { type Context, admit, isRefusal, noteAction, refuse, touchMember } from './context.ts'
import { commitDraft, leaveDraft } from './draft.ts'
import { addEntry } from './log.ts'
import { cut, findRoom, letGo } from './retention.ts'
import { takeTurn } from './roster.ts'
import { ENTRY_OVERHEAD, type IdKey } from './rows.ts'
import { type Channel, type Slot, findMember, onRoster, roster } from './state.ts'

/** Of how many slots is remembered what their commits did. */
const SLOTS = 64
/** So many Welcomes of one account's channels wait for an agent at most: anybody may add any agent. */
const MAX_WAITING = 64

/** Logs a commit, changes the roster and keeps its Welcomes, if it is the first for the head's slot. */
export function commit(context: Context, request: StoreRequest<'commit'>): StoreResult<'commit'> {
  const { rows, retention } = context
  const { actor, slot, messageId, declaration, now } = request
  const key: IdKey = { kind: 'commit', agent: actor.agent, id: messageId }
  const since = now - retention.messageIdMs
  const known = rows.channel(request.channel)
  const answered = known && rows.findId(known, key, since)
  if (answered) return answered

  const admitted = admit(context, actor, request.channel)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
  const adds = declaration.adds.map((agent) => toHex(agent))
  const removes = declaration.removes.map((agent) => toHex(agent))
  const refusal =
    judgePlace(channel, request) ??
    judgeRoster(context, channel, actor.agent, adds, removes, request) ??
    judgeWelcomes(context, channel, request.welcomes)
  if (refusal) return refusal

  noteAction(context, actor, channel)
  const body = commitBody(request.commit, declaration)
  makeRoom(context, channel, body.length)
  const rosterSize = roster(channel).length
  const position = addEntry(context, channel, commitDraft(request), body)
  const answer = { index: position.index, head: position.slot }
  rows.addId(channel, key, { ...answer, at: now }, since)
  const place = { slot, position, at: now }
  for (const agent of new Set([...removes, ...adds])) {
    const change = { removes: removes.includes(agent), adds: adds.includes(agent), notice: undefined }
    takeTurn(context, channel, { agent, ...place, ...change })
  }
  rows.putSlot(channel, { ...place, sender: actor.agent, rosterSize, voters: [], rejected: false })
  rows.dropSlot(channel, slot - SLOTS)
  letGo(context, channel)
  for (const welcome of request.welcomes) {
    keepWelcome(context, channel, welcome, actor.agent, place)
    countUse(context, channel, actor.agent, welcome.inviteId)
  }
  return answer
}

/** Whether the commit stands in the right place and is not too large. */
function judgePlace(
  channel: Channel,
  { actor, slot, commit: bytes, declaration, welcomes }: StoreRequest<'commit'>,
): Refusal | undefined {
  if (channel.senders.get(actor.agent)?.barred) {
    return refuse('not_allowed', 'A commit of this agent was rejected: only the owner can let it commit again.')
  }
  const head = channel.last.slot
  if (slot !== head) return { refused: 'epoch_mismatch', head }
  const size = welcomes.reduce((sum, { welcome }) => sum + welcome.length, bytes.length)
  if (size > maxCommitBytes(roster(channel).length + declaration.adds.length)) {
    return refuse('too_large', 'The commit and its Welcomes are too large.')
  }
  return undefined
}

/** Whether the actor may change the roster in this way. */
function judgeRoster(
  context: Context,
  channel: Channel,
  actor: AgentId,
  adds: readonly AgentId[],
  removes: readonly AgentId[],
  { declaration, welcomes }: StoreRequest<'commit'>,
): Refusal | undefined {
  if (hasRepeats(adds) || hasRepeats(removes)) return refuse('invalid_request', 'The commit names an agent twice.')
  const noticed = noticedLeavers(context, channel, removes, declaration)
  if (!noticed) return refuse('invalid_request', 'A Leave notice is not one of an agent that the commit removes.')
  for (const agent of removes) {
    const refusal = judgeRemoval(channel, actor, agent, noticed)
    if (refusal) return refusal
  }
  for (const agent of adds) {
    if (channel.members.has(agent) && !removes.includes(agent)) {
      return refuse('invalid_request', `Agent ${agent} is in the channel already.`)
    }
  }
  if (channel.members.size - removes.length + adds.length > MAX_MEMBERS) return refuse('group_full')
  const welcomed = welcomes.map(({ agent }) => agent)
  if (hasRepeats(welcomed) || !welcomed.every((agent) => adds.includes(agent))) {
    return refuse('invalid_request', 'A Welcome is not for one agent that the commit adds.')
  }
  return undefined
}

function judgeRemoval(
  channel: Channel,
  actor: AgentId,
  agent: AgentId,
  noticed: ReadonlySet<AgentId>,
): Refusal | undefined {
  const member = channel.members.get(agent)
  if (!member) return refuse('invalid_request', `Agent ${agent} is not in the channel.`)
  if (agent === channel.owner) return refuse('not_allowed', 'The owner cannot be removed.')
  if (member.ended) {
    if (actor === channel.owner || noticed.has(agent)) return undefined
    return refuse('invalid_request', `The Leave notice of agent ${agent} is missing.`)
  }
  if (agent === actor) return refuse('invalid_request', 'An agent does not remove itself: it leaves.')
  return actor === channel.owner
    ? undefined
    : refuse('not_allowed', 'Only the owner removes an agent that has not left.')
}

/** Whose notices the declaration carries; undefined if one is not the stored notice of an agent that is removed. */
function noticedLeavers(
  { hash }: Context,
  channel: Channel,
  removes: readonly AgentId[],
  { leaveNotices }: SignedDeclaration,
): Set<AgentId> | undefined {
  const noticed = new Set<AgentId>()
  for (const notice of leaveNotices) {
    const agent = toHex(hash(notice.publicKey))
    const { ended } = channel.members.get(agent) ?? {}
    if (!ended?.pending || !ended.notice || !removes.includes(agent)) return undefined
    if (toHex(leaveBody(notice)) !== toHex(leaveBody(ended.notice))) return undefined
    noticed.add(agent)
  }
  return noticed
}

/** Whether each agent can be given one more Welcome of this account. */
function judgeWelcomes({ rows }: Context, channel: Channel, welcomes: readonly WelcomeFields[]): Refusal | undefined {
  const large = welcomes.find(({ welcome }) => welcome.length > MAX_WELCOME_BYTES)
  if (large) {
    const size = large.welcome.length
    return refuse('too_large', `The Welcome of agent ${large.agent} has ${size} bytes: at most ${MAX_WELCOME_BYTES}.`)
  }
  const full = welcomes.find(({ agent }) => rows.countWelcomes(channel, agent) >= MAX_WAITING)
  if (!full) return undefined
  const message = `${MAX_WAITING} Welcomes of this account's channels wait for agent ${full.agent} already.`
  return refuse('rate_limited', message)
}

function hasRepeats(agents: readonly AgentId[]): boolean {
  return new Set(agents).size < agents.length
}

/** For an entry that is never refused: lets go what may be let go if that is enough. */
function makeRoom(context: Context, channel: Channel, bodyLength: number): void {
  const room = findRoom(context, channel, undefined, bodyLength + ENTRY_OVERHEAD)
  if (typeof room === 'number') cut(context, channel, room)
}

function keepWelcome(
  context: Context,
  channel: Channel,
  fields: WelcomeFields,
  sender: AgentId,
  { slot, position, at }: Pick<Slot, 'slot' | 'position' | 'at'>,
): void {
  const { id, name, owner } = channel
  context.rows.putWelcome(channel, { ...fields, channel: id, name, owner, sender, slot, position }, at)
  const member = channel.members.get(fields.agent)
  if (member) {
    member.welcome = position.index
    touchMember(context, channel, member)
  }
  context.emit({ type: 'welcomed', channel: id, agent: fields.agent, inviteId: toHex(fields.inviteId) })
}

/** Only the agent that registered an invite answers by it: nobody else can use it up. */
function countUse({ rows }: Context, channel: Channel, committer: AgentId, inviteId: Uint8Array): void {
  if (inviteId.length === 0) return
  const invite = rows.invite(toHex(inviteId))
  if (invite?.channel === channel.id && invite.agent === committer) rows.putInvite({ ...invite, uses: invite.uses + 1 })
}

/** Keeps a Welcome that was not sent with its commit. */
export function welcome(context: Context, request: StoreRequest<'welcome'>): Done | Refusal {
  const { actor, slot, welcome: fields } = request
  const admitted = admit(context, actor, request.channel)
  if (isRefusal(admitted)) return admitted
  const { channel } = admitted
  const taken = context.rows.slot(channel, slot)
  if (!taken) return refuse('not_found', 'The commit of this slot is not known any more.')
  if (taken.sender !== actor.agent) return refuse('not_allowed', 'Only the sender of a commit sends its Welcomes.')
  const joiner = channel.members.get(fields.agent)
  if (!onRoster(joiner) || joiner.from !== taken.position.index) {
    return refuse('invalid_request', 'The Welcome is not for an agent that this commit has added.')
  }
  if (fields.welcome.length > maxCommitBytes(roster(channel).length)) {
    return refuse('too_large', 'The Welcome is too large.')
  }
  const refusal = judgeWelcomes(context, channel, [fields])
  if (refusal) return refusal
  noteAction(context, actor, channel)
  keepWelcome(context, channel, fields, actor.agent, taken)
  return { done: true }
}

/** Takes an agent off the roster by its own signed word. Asks for no account: nobody is held. */
export function leave(context: Context, request: StoreRequest<'leave'>): StoreResult<'leave'> {
  const { actor, channel: id, notice, now } = request
  const channel = context.rows.channel(id)
  const member = channel && findMember(channel, actor.agent)
  if (!channel || !member) return refuse('not_found')
  const { ended } = member
  const body = leaveBody(notice)
  if (ended) {
    const same = ended.notice && toHex(leaveBody(ended.notice)) === toHex(body)
    return same ? { index: ended.position.index } : refuse('not_found')
  }
  if (channel.owner === actor.agent) return refuse('not_allowed', 'The owner does not leave: it deletes the channel.')
  const head = channel.last.slot
  if (notice.slot !== BigInt(head)) return { refused: 'epoch_mismatch', head }

  makeRoom(context, channel, body.length)
  const position = addEntry(context, channel, leaveDraft(request), body)
  const change = { removes: false, adds: false, notice }
  takeTurn(context, channel, { agent: actor.agent, slot: head, position, at: now, ...change })
  letGo(context, channel)
  return { index: position.index }
}
