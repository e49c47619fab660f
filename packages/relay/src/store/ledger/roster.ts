/**
 * Who is in a channel, told by the log: every entry that changes it is a turn of an agent. A rejected commit is left out
 * of the tale, and what came after it is told again.
 */
import type { AgentId } from '../../ports.ts'
import { type Context, senderOf, touchMember, touchSender } from './context.ts'
import type { Rows } from './rows.ts'
import {
  type Channel,
  type Ending,
  type Member,
  type Slot,
  type Snapshot,
  type Turn,
  findMember,
  forgetMember,
  isConfirmed,
  isInGroup,
  isUnwelcomed,
  onRoster,
  placeMember,
} from './state.ts'
import { dropWelcome } from './welcomes.ts'

/** What leaving a commit out comes to for one of its agents. */
export interface LeftOut {
  readonly agent: AgentId
  /** Those that change. */
  readonly turns: readonly Turn[]
  readonly before: Snapshot | undefined
  readonly after: Snapshot | undefined
}

/** Lets an entry change what an agent is. */
export function takeTurn(context: Context, channel: Channel, fields: Omit<Turn, 'before' | 'rejected'>): void {
  const before = snapshot(channel, fields.agent)
  const turn = { ...fields, rejected: false, before }
  context.rows.putTurn(channel, turn)
  become(context, channel, fields.agent, outcome(turn, before))
}

/** Whether an agent was on the roster just before a commit, confirmed by the owner: only such agents vote on it. */
export function hadVote({ rows }: Context, channel: Channel, agent: AgentId, { position, ownerCommit }: Slot): boolean {
  let member = findMember(channel, agent)
  for (const turn of rows.turnsFrom(channel, agent, position.index)) {
    member = turn.before?.member
    break
  }
  return onRoster(member) && isConfirmed(member, ownerCommit)
}

/**
 * The stay that an agent may read: its own; or, while it was added again without a Welcome, the one from before, which
 * whoever added it must not take from it. Undefined when there is none.
 */
export function readableStay(rows: Rows, channel: Channel, member: Member): Member | undefined {
  if (!isUnwelcomed(member)) return member
  for (const { adds, before } of rows.turnsFrom(channel, member.agent, member.from)) {
    const earlier = adds ? before?.member : undefined
    return earlier && !isUnwelcomed(earlier) ? earlier : undefined
  }
  return undefined
}

/** Tells what happened to an agent without one of its turns. Changes nothing. */
export function leaveOut(rows: Rows, channel: Channel, turn: Turn): LeftOut {
  const { agent, position } = turn
  const turns: Turn[] = [{ ...turn, rejected: true }]
  const before = snapshot(channel, agent)
  let told = turn.before
  for (const next of rows.turnsFrom(channel, agent, position.index + 1)) {
    // From here on it is as it was.
    if (isSame(told, next.before)) return { agent, turns, before, after: before }
    told = latest(told, next.before)
    turns.push({ ...next, before: told })
    told = outcome(next, told)
  }
  return { agent, turns, before, after: isSame(told, before) ? before : latest(told, before) }
}

/** Makes it so. */
export function applyLeftOut(context: Context, channel: Channel, { agent, turns, before, after }: LeftOut): void {
  for (const turn of turns) context.rows.putTurn(channel, turn)
  if (after !== before) become(context, channel, agent, after)
}

/** What an agent is after a turn. One that does not fit what is told now does nothing: none is in or out twice. */
function outcome(
  { agent, position, at, removes, adds, adder, notice, rejected }: Turn,
  before: Turn['before'],
): typeof before {
  if (rejected) return before
  if (adds)
    return {
      member: {
        agent,
        from: position.index,
        adder,
        welcomed: false,
        ended: undefined,
        cursor: position,
        welcome: undefined,
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
  return member && { member: { ...member }, counter: channel.senders.get(agent)?.counter ?? 0 }
}

/** The same membership, in or out. */
function isSame(one: Snapshot | undefined, other: Snapshot | undefined): boolean {
  if (!one || !other) return one === other
  const [{ from, ended }, { from: otherFrom, ended: otherEnded }] = [one.member, other.member]
  return (
    from === otherFrom && ended?.position.index === otherEnded?.position.index && ended?.pending === otherEnded?.pending
  )
}

/** What is told now, with what was noted later of the same membership: the agent has gone on reading and sending. */
function latest(told: Snapshot | undefined, noted: Snapshot | undefined): Snapshot | undefined {
  if (!told || !noted || told.member.from !== noted.member.from) return told
  return { member: { ...noted.member, ended: told.member.ended }, counter: noted.counter }
}

function become(context: Context, channel: Channel, agent: AgentId, after: Snapshot | undefined): void {
  const from = findMember(channel, agent)?.from
  // One for another membership is of no use any more.
  if (from !== after?.member.from) dropWelcome(context, channel, agent)
  if (after) placeMember(channel, { ...after.member })
  else forgetMember(channel, agent)
  touchMember(context, channel, { agent })
  const counter = after?.counter ?? 0
  if ((channel.senders.get(agent)?.counter ?? 0) === counter) return
  const sender = senderOf(channel, agent)
  sender.counter = counter
  touchSender(context, channel, sender)
}
