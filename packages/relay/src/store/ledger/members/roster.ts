/**
 * The members of a channel, derived from the log: an entry's effect on one agent is a turn. When a commit is rejected,
 * its turns are skipped and the later ones are replayed.
 */
import type { AgentId } from '../../../ports.ts'
import { type Context, senderOf, touchMember, touchSender } from '../context.ts'
import { hold } from '../room/room.ts'
import type { Rows } from '../rows/rows.ts'
import { TURN_BYTES } from '../rows/slots.ts'
import {
  type Channel,
  type Ending,
  type Member,
  type Slot,
  type Snapshot,
  type Turn,
  awaitedFrom,
  findMember,
  forgetMember,
  isInGroup,
  isUnwelcomed,
  onRoster,
  placeMember,
} from '../state.ts'
import { dropWelcome } from './welcomes.ts'

/** The result of skipping a rejected commit, for one of its agents. */
export interface LeftOut {
  readonly agent: AgentId
  /** The turns that change. */
  readonly turns: readonly Turn[]
  readonly before: Snapshot | undefined
  readonly after: Snapshot | undefined
}

/** Records a turn and applies it to its agent. */
export function takeTurn(
  context: Context,
  channel: Channel,
  fields: Omit<Turn, 'before' | 'rejected' | 'undone'>,
): void {
  const before = snapshot(channel, fields.agent)
  const turn = { ...fields, rejected: false, before, undone: undefined }
  context.rows.slots.putTurn(channel, turn)
  hold(context, channel, TURN_BYTES)
  become(context, channel, fields.agent, outcome(turn, before))
}

/**
 * The members of which a majority decides on the commit of a slot: those whose present membership the owner had vouched
 * for before the commit. Members without a Welcome count, because they can vote once they have it. Only the owner
 * removes members, and removed ones have no vote, even if others add them again.
 */
export function electorate({ members }: Channel, slot: number): Member[] {
  return [...members.values()].filter(
    ({ ended, vouched }) => ended === undefined && vouched !== undefined && vouched <= slot,
  )
}

/** Whether an agent has a vote on a commit: it is on the roster and in the electorate. */
export function hasVote(channel: Channel, agent: AgentId, { slot }: Slot): boolean {
  const member = electorate(channel, slot).find((each) => each.agent === agent)
  return onRoster(member)
}

/**
 * The membership whose entries an agent may read: the current one, or the previous one while it is re-added without a
 * Welcome; otherwise any member could cut an agent off by adding it again. Undefined if there is none.
 */
export function readableStay(rows: Rows, channel: Channel, member: Member): Member | undefined {
  if (!isUnwelcomed(member)) return member
  for (const { adds, before } of rows.slots.turnsFrom(channel, member.agent, member.from)) {
    const earlier = adds ? before?.member : undefined
    return earlier && !isUnwelcomed(earlier) ? earlier : undefined
  }
  return undefined
}

/** Replays an agent's turns without one of them. Changes nothing. */
export function leaveOut(rows: Rows, channel: Channel, turn: Turn): LeftOut {
  const { agent, position } = turn
  const before = snapshot(channel, agent)
  const undone = before?.member.from === position.index ? before : undefined
  const turns: Turn[] = [{ ...turn, rejected: true, undone }]
  let replayed = turn.before
  for (const next of rows.slots.turnsFrom(channel, agent, position.index + 1)) {
    // From here on, nothing differs from the stored state.
    if (isSame(replayed, next.before)) return { agent, turns, before, after: before }
    replayed = latest(replayed, next.before)
    turns.push({ ...next, before: replayed })
    replayed = outcome(next, replayed)
  }
  return { agent, turns, before, after: isSame(replayed, before) ? before : latest(replayed, before) }
}

/** Stores the result of `leaveOut`. */
export function applyLeftOut(context: Context, channel: Channel, { agent, turns, before, after }: LeftOut): void {
  for (const turn of turns) context.rows.slots.putTurn(channel, turn)
  if (after !== before) become(context, channel, agent, after)
}

/** An agent's state after a turn. A turn that does not fit `before` has no effect: no agent is in or out twice. */
function outcome(
  { agent, position, at, removes, adds, sponsor, vouched, notice, rejected }: Turn,
  before: Turn['before'],
): typeof before {
  if (rejected) return before
  if (adds)
    return {
      member: {
        agent,
        from: position.index,
        sponsor,
        vouched,
        welcomed: false,
        ended: undefined,
        cursor: position,
        welcome: undefined,
        earlier: before && awaitedFrom(before.member),
      },
      counter: 0,
    }
  if (!before || !isInGroup(before.member)) return before
  const { ended } = before.member
  if (notice) return ended ? before : ending(before, { position, at, notice, pending: true })
  if (!removes) return before
  return ending(before, ended ? { ...ended, pending: false } : { position, at, notice: undefined, pending: false })
}

function ending({ member, counter }: Snapshot, ended: Ending): Snapshot {
  return { member: { ...member, ended }, counter }
}

function snapshot(channel: Channel, agent: AgentId): Snapshot | undefined {
  const member = findMember(channel, agent)
  return member && { member: { ...member, receipt: undefined }, counter: channel.senders.get(agent)?.counter ?? 0 }
}

/** Whether both are the same membership with the same end. */
function isSame(one: Snapshot | undefined, other: Snapshot | undefined): boolean {
  if (!one || !other) return one === other
  const [{ from, ended }, { from: otherFrom, ended: otherEnded }] = [one.member, other.member]
  return (
    from === otherFrom && ended?.position.index === otherEnded?.position.index && ended?.pending === otherEnded?.pending
  )
}

/** The replayed state with the newer cursor and counter that were stored for the same membership. */
function latest(replayed: Snapshot | undefined, stored: Snapshot | undefined): Snapshot | undefined {
  if (!replayed || !stored || replayed.member.from !== stored.member.from) return replayed
  return { member: { ...stored.member, ended: replayed.member.ended }, counter: stored.counter }
}

function become(context: Context, channel: Channel, agent: AgentId, after: Snapshot | undefined): void {
  // A Welcome for another membership, or for one that has ended, is useless.
  const current = findMember(channel, agent)
  const isSameStay = current?.from === after?.member.from
  const keeps = isSameStay && !after?.member.ended
  const receipt = isSameStay ? current?.receipt : undefined
  if (!keeps) dropWelcome(context, channel, agent)
  if (after) placeMember(channel, { ...after.member, welcome: keeps ? after.member.welcome : undefined, receipt })
  else forgetMember(channel, agent)
  touchMember(context, channel, { agent })
  const counter = after?.counter ?? 0
  if ((channel.senders.get(agent)?.counter ?? 0) === counter) return
  const sender = senderOf(channel, agent)
  sender.counter = counter
  touchSender(context, channel, sender)
}
