/**
 * A join by token: every way into a channel, and every way out of a join that is half made.
 *
 * This agent becomes a member of a channel in one of these ways:
 *
 * - It founds the channel (agent/founding.ts).
 * - By an offer (offers.ts): a member adds this agent unasked, with one of its KeyPackages. The Welcome is kept as a channel
 *   in the state `offered`. When the application accepts it, the channel is `joined` at once.
 * - By a token that the owner admits (joins.ts; SPEC.md, 6.3): this agent asks with a join request, enters the channel
 *   with the Welcome that answers it, says hello there, and has joined when the owner greets it. Until then the application
 *   does not see the channel, which is in the state `joining`.
 * - By a token that members admit (SPEC.md, 6.5): the same, but any member with an account may add this agent, and that
 *   member may greet it.
 * - Again, in any of these ways, after it was removed or has left. A Welcome to the later membership waits until the
 *   earlier one has ended and is read (welcome.ts). A join that was not greeted goes on by itself: this agent asks again.
 *   One that has ended does not: whoever leaves, or is removed, stays out until the application uses a token again.
 *
 * Only tokens make joins, and a join has the states below. They are not stored: `joinState` derives the state from the
 * record on disk, the state of the channel and what is in memory. So a join that is interrupted by a crash between any two
 * steps goes on from what the disk says. `JOIN_MOVES` has every move from one state to another.
 */
import type { InviteKeys } from '../admitting/keys.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AttemptRecord, Time } from '../ports/index.ts'

/** How long the relay keeps a Welcome: it refuses a joiner without one if the invite has expired. */
const WELCOME_MS = 7 * 24 * 60 * 60 * 1000

/** Where a join stands. */
export type JoinState =
  /** The request is on disk and goes to the relay in every session. No one has answered it yet. */
  | 'asking'
  /** A Welcome to the request is here, but the relay has kept this agent from entering with it. It is tried again. */
  | 'welcomed'
  /**
   * The Welcome is right, and the relay is asked where the log begins. The channel is in memory only: after a crash, the
   * relay delivers the Welcome again.
   */
  | 'entering'
  /** This agent is in the group, on disk, and says hello until it is greeted. */
  | 'greeting'
  /** The invite has expired without a Welcome. One that is on its way is still used; otherwise the next step ends the join. */
  | 'expired'
  /** This agent has joined by an offer meanwhile and has taken its request back. A member that has it may still act on it. */
  | 'withdrawn'
  /**
   * This agent had joined by an offer, and that membership has ended. If it was removed to be added by its request, the
   * Welcome follows: the join waits for that before it is dropped.
   */
  | 'dropping'
  /** This agent is leaving the channel, or declines an offer of it. It does not ask before it has left. */
  | 'leaving'
  | JoinEnd

/** How a join has ended. It is not on disk any longer. */
export type JoinEnd =
  /** Greeted: the application has the channel. */
  | 'joined'
  /** The owner or the relay has refused the request, or the invite has expired: the token cannot be used again. */
  | 'refused'
  /** This agent had joined by an offer and has left, or was removed and no Welcome to its request followed. */
  | 'left'
  /** A bug: it has made a move that is not in the table. Only this join fails. The same token begins another one. */
  | 'broken'

/** From each state, the states that may follow it, with the reason. A bug may break a join in any state. */
export type JoinMoves = {
  readonly [From in JoinState]: Readonly<Partial<Record<Exclude<JoinState, 'broken'>, string>>>
}

/** Every move of a join, with its reason. A join may begin, or be loaded, in any state that is not an end. */
export const JOIN_MOVES: JoinMoves = {
  asking: {
    welcomed: 'a Welcome is here, but the relay does not let this agent enter for the moment',
    entering: 'a Welcome to the request is right',
    expired: 'the last moment for a Welcome has passed',
    withdrawn: 'the application has accepted an offer of the channel',
    leaving: 'the application declines an offer of the channel',
    refused: 'the owner or the relay refuses the request',
  },
  welcomed: {
    asking: 'the Welcome is given up, or another session delivers it again',
    entering: 'the Welcome is tried again, or another one is right',
    expired: 'the Welcome is given up, and the last moment for another has passed',
    withdrawn: 'the application has accepted an offer of the channel',
    leaving: 'the application declines an offer of the channel',
    refused: 'the owner or the relay refuses the request',
  },
  entering: {
    asking: 'the Welcome is superseded, or the channel has failed',
    welcomed: 'the relay does not say now where the log begins',
    greeting: 'the relay has said where the log begins',
    expired: 'the Welcome is superseded, and the last moment for another has passed',
    dropping: 'the Welcome is superseded, and the request was taken back before',
    leaving: 'the application leaves the channel',
  },
  greeting: {
    asking:
      'this agent was removed before the greeting, a later Welcome takes the place of this one, or the channel has failed',
    welcomed: 'the same, and another Welcome is here',
    expired: 'the same, and the last moment for another Welcome has passed',
    dropping: 'the same, and the request of this token was taken back before',
    leaving: 'the application leaves the channel, or it has failed',
    joined: 'the owner, or the member that has added this agent, greets it',
  },
  expired: {
    asking: 'the clock was set back',
    welcomed: 'a late Welcome is here, but the relay does not let this agent enter for the moment',
    entering: 'a late Welcome is right',
    withdrawn: 'the application has accepted an offer of the channel',
    leaving: 'the application declines an offer of the channel',
    refused: 'the next step is due',
  },
  withdrawn: {
    dropping: 'this agent was removed, or the channel has failed',
    joined: 'an earlier hello is answered',
    refused: 'the owner refuses the request that was taken back, or the invite has expired',
    left: 'the application leaves the channel',
  },
  dropping: {
    asking: 'the application uses the token again',
    welcomed: 'the application uses the token again, and a Welcome is here',
    entering: 'the Welcome that was to follow is right',
    expired: 'the application uses the token again, which has expired',
    withdrawn: 'the application has accepted another offer of the channel',
    leaving: 'the application declines an offer of the channel',
    refused: 'the owner refuses the request that was taken back, or the invite has expired',
    left: 'no Welcome has followed, or the application leaves what is left of the channel',
  },
  leaving: {
    asking: 'this agent has left before it was greeted',
    welcomed: 'this agent has left, and a Welcome is here',
    entering: 'the Leave has failed',
    greeting: 'the Leave has failed, or the relay has said where the log begins',
    expired: 'this agent has left, and the last moment for another Welcome has passed',
    withdrawn: 'an offer could not be declined and was accepted then',
    dropping: 'this agent has left, and the request was taken back before',
    joined: 'the greeting has come meanwhile',
    refused: 'the owner or the relay refuses the request',
  },
  joined: {},
  refused: {},
  left: {},
  broken: {},
}

/** Whether a join may go from one state to another. Undefined: no step has looked at it before. */
export function mayMove(from: JoinState | undefined, to: JoinState): boolean {
  return from === undefined || from === to || Object.hasOwn(JOIN_MOVES[from], to)
}

/** Whether a join has ended: no move leads out of its state. */
export function isOver(state: JoinState): state is JoinEnd {
  return Object.keys(JOIN_MOVES[state]).length === 0
}

/** Whether a join has brought this agent into the channel, where it is not greeted yet. */
export function isEntered(state: JoinState): boolean {
  return state === 'entering' || state === 'greeting'
}

/** Whether this agent is in the channel of a join, by the join or by an offer. */
export function isIn(state: JoinState): boolean {
  return isEntered(state) || state === 'withdrawn'
}

/** What the state of a join follows from. */
export interface JoinFacts {
  /** On disk. */
  readonly record: Pick<AttemptRecord, 'name' | 'owner' | 'admit' | 'expiresAt' | 'takenBack'>
  /** The channel with the id of the token, if there is one: whoever makes a token can write any id into it. */
  readonly channel: Pick<AgentChannel, 'name' | 'owner' | 'state' | 'failure' | 'group'> | undefined
  /** Whether a Welcome to the request is here that cannot be used for the moment. Only in memory. */
  readonly hasWelcome: boolean
  /** How the join has ended, if it has. Only in memory. */
  readonly end: JoinEnd | undefined
  readonly now: Time
}

/** The state of a join. */
export function joinState({ record, channel, hasWelcome, end, now }: JoinFacts): JoinState {
  if (end !== undefined) return end
  if (channel?.state === 'leaving') return 'leaving'
  const isMeant = channel?.name === record.name && channel.owner === record.owner
  const held = isMeant && !channel.failure ? channel.state : undefined
  if (held === 'joining') return channel?.group ? 'greeting' : 'entering'
  if (held === 'joined') return 'withdrawn'
  if (record.takenBack) return 'dropping'
  if (hasWelcome) return 'welcomed'
  return isPast(record, now) ? 'expired' : 'asking'
}

/** Whether no Welcome may come any longer: one of a member may wait at the relay after the invite has expired. */
export function isPast({ admit, expiresAt }: Pick<AttemptRecord, 'admit' | 'expiresAt'>, now: Time): boolean {
  return (admit === 'owner' ? expiresAt : expiresAt + WELCOME_MS) <= now
}

/** A join by one token. */
export interface Join {
  record: AttemptRecord
  readonly keys: InviteKeys
  /** The state in which the last step has found it. */
  seen: JoinState | undefined
  end: JoinEnd | undefined
  /** Calls waiting for the result. */
  readonly waiting: Set<PromiseWithResolvers<AgentChannel>>
  /** Hellos sent since the start, and what cancels the next step. */
  hellos: number
  /** Whether a hello is on its way. */
  isGreeting: boolean
  cancel: (() => void) | undefined
  /** How often this agent was kept from entering in this session, and what cancels the next try, if there is one. */
  entries: number
  cancelEntry: (() => void) | undefined
}
