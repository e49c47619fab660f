/**
 * A join by token: every way into a channel, and every way out of an unfinished join.
 *
 * This agent becomes a member of a channel in one of these ways:
 *
 * - It creates the channel (agent/founding.ts).
 * - By an offer (offers.ts): a member adds this agent unasked, with one of its KeyPackages. The Welcome is stored as a
 *   channel in state `offered`. When the application accepts it, the channel becomes `joined` at once.
 * - By a token that the owner admits (joins.ts; SPEC.md, 6.3): this agent asks with a join request, enters the channel
 *   with the Welcome that answers it, says hello there, and has joined once the owner greets it. Until then the channel
 *   is in state `joining` and hidden from the application.
 * - By a token that members admit (SPEC.md, 6.5): the same, but any member with an account may add this agent, and that
 *   member may greet it.
 * - Again, in any of these ways, after it was removed or left. A Welcome to the later membership waits until the
 *   earlier one has ended and its messages are read (welcome.ts). A join that was not greeted continues automatically:
 *   this agent asks again. A join that has ended does not: an agent that left or was removed stays out until the
 *   application uses a token again.
 *
 * Only tokens start joins. The states of a join are listed below. They are not stored: `joinState` derives the state
 * from the record on disk, the state of the channel, and facts in memory. A join interrupted by a crash between any two
 * steps therefore resumes from the disk. `JOIN_MOVES` lists every transition.
 */
import type { InviteKeys } from '../admitting/keys.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { AttemptRecord, Time } from '../ports/index.ts'

/** How long the relay keeps a Welcome. It refuses a joiner that has none once the invite has expired. */
const WELCOME_MS = 7 * 24 * 60 * 60 * 1000

/** The state of a join. */
export type JoinState =
  /** The request is on disk and is sent to the relay in every session. No one has answered it yet. */
  | 'asking'
  /** A Welcome for the request is here, but the relay does not let this agent enter yet. Retried. */
  | 'welcomed'
  /**
   * The Welcome is valid, and this agent has asked the relay where the log begins. The channel is only in memory: after
   * a crash, the relay delivers the Welcome again.
   */
  | 'entering'
  /** This agent is in the group, on disk, and repeats its hello until it is greeted. */
  | 'greeting'
  /**
   * The invite expired without a Welcome. A Welcome already on its way is still used; otherwise the next step ends the
   * join.
   */
  | 'expired'
  /**
   * This agent has meanwhile joined by an offer and withdrawn its request. A member that already has the request may
   * still act on it.
   */
  | 'withdrawn'
  /**
   * This agent joined by an offer, and that membership has ended. If it was removed in order to be added by its
   * request, a Welcome follows: the join waits for it before it is dropped.
   */
  | 'dropping'
  /** This agent is leaving the channel or declining an offer of it. It does not ask again until it has left. */
  | 'leaving'
  | JoinEnd

/** How a join ended. It is no longer on disk. */
export type JoinEnd =
  /** Greeted: the application now has the channel. */
  | 'joined'
  /** The owner or the relay refused the request, or the invite has expired: the token cannot be used again. */
  | 'refused'
  /** This agent joined by an offer and left, or was removed and no Welcome for its request followed. */
  | 'left'
  /**
   * A bug: the join made a transition that is not in the table. Only this join fails. The same token starts a new one.
   */
  | 'broken'

/** For each state, the states that may follow it, with the reason. A bug may break a join in any state. */
export type JoinMoves = {
  readonly [From in JoinState]: Readonly<Partial<Record<Exclude<JoinState, 'broken'>, string>>>
}

/** Every transition of a join, with its reason. A join may start, or be loaded, in any state that is not an end. */
export const JOIN_MOVES: JoinMoves = {
  asking: {
    welcomed: 'a Welcome is here, but the relay does not let this agent enter yet',
    entering: 'a Welcome for the request is valid',
    expired: 'it is too late for a Welcome',
    withdrawn: 'the application has accepted an offer of the channel',
    leaving: 'the application declines an offer of the channel',
    refused: 'the owner or the relay refuses the request',
  },
  welcomed: {
    asking: 'the Welcome is discarded, or another session delivers it again',
    entering: 'the Welcome is retried, or another one is valid',
    expired: 'the Welcome is discarded, and it is too late for another',
    withdrawn: 'the application has accepted an offer of the channel',
    leaving: 'the application declines an offer of the channel',
    refused: 'the owner or the relay refuses the request',
  },
  entering: {
    asking: 'the Welcome is superseded, or the channel has failed',
    welcomed: 'the relay does not yet say where the log begins',
    greeting: 'the relay has said where the log begins',
    expired: 'the Welcome is superseded, and it is too late for another',
    dropping: 'the Welcome is superseded, and the request was withdrawn earlier',
    leaving: 'the application leaves the channel',
  },
  greeting: {
    asking: 'this agent was removed before the greeting, a later Welcome replaces this one, or the channel has failed',
    welcomed: 'the same, and another Welcome is here',
    expired: 'the same, and it is too late for another Welcome',
    dropping: 'the same, and the request of this token was withdrawn earlier',
    leaving: 'the application leaves the channel, or it has failed',
    joined: 'the owner, or the member that added this agent, greets it',
  },
  expired: {
    asking: 'the clock was set back',
    welcomed: 'a late Welcome is here, but the relay does not let this agent enter yet',
    entering: 'a late Welcome is valid',
    withdrawn: 'the application has accepted an offer of the channel',
    leaving: 'the application declines an offer of the channel',
    refused: 'the next step is due',
  },
  withdrawn: {
    dropping: 'this agent was removed, or the channel has failed',
    joined: 'an earlier hello is answered',
    refused: 'the owner refuses the withdrawn request, or the invite has expired',
    left: 'the application leaves the channel',
  },
  dropping: {
    asking: 'the application uses the token again',
    welcomed: 'the application uses the token again, and a Welcome is here',
    entering: 'the expected Welcome is valid',
    expired: 'the application uses the token again, which has expired',
    withdrawn: 'the application has accepted another offer of the channel',
    leaving: 'the application declines an offer of the channel',
    refused: 'the owner refuses the withdrawn request, or the invite has expired',
    left: 'no Welcome followed, or the application leaves the rest of the channel',
  },
  leaving: {
    asking: 'this agent left before it was greeted',
    welcomed: 'this agent has left, and a Welcome is here',
    entering: 'the Leave failed',
    greeting: 'the Leave failed, or the relay has said where the log begins',
    expired: 'this agent has left, and it is too late for another Welcome',
    withdrawn: 'an offer could not be declined and was then accepted',
    dropping: 'this agent has left, and the request was withdrawn earlier',
    joined: 'the greeting has meanwhile arrived',
    refused: 'the owner or the relay refuses the request',
  },
  joined: {},
  refused: {},
  left: {},
  broken: {},
}

/** Whether a join may go from one state to another. `from` is undefined if no step has examined the join before. */
export function mayMove(from: JoinState | undefined, to: JoinState): boolean {
  return from === undefined || from === to || Object.hasOwn(JOIN_MOVES[from], to)
}

/** Whether a join has ended: no transition leads out of its state. */
export function isOver(state: JoinState): state is JoinEnd {
  return Object.keys(JOIN_MOVES[state]).length === 0
}

/** Whether a join has brought this agent into the channel, where it has not been greeted yet. */
export function isEntered(state: JoinState): boolean {
  return state === 'entering' || state === 'greeting'
}

/** Whether this agent is in the channel of a join, either by the join or by an offer. */
export function isIn(state: JoinState): boolean {
  return isEntered(state) || state === 'withdrawn'
}

/** The facts that determine the state of a join. */
export interface JoinFacts {
  /** On disk. */
  readonly record: Pick<AttemptRecord, 'name' | 'owner' | 'admit' | 'expiresAt' | 'takenBack'>
  /** The channel with the token's id, if there is one. Anyone who makes a token can write any id into it. */
  readonly channel: Pick<AgentChannel, 'name' | 'owner' | 'state' | 'failure' | 'group'> | undefined
  /** Whether a Welcome for the request is here that cannot be used yet. Only in memory. */
  readonly hasWelcome: boolean
  /** How the join ended, if it has. Only in memory. */
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

/** Whether it is too late for a Welcome. A member's Welcome may wait at the relay after the invite has expired. */
export function isPast({ admit, expiresAt }: Pick<AttemptRecord, 'admit' | 'expiresAt'>, now: Time): boolean {
  return (admit === 'owner' ? expiresAt : expiresAt + WELCOME_MS) <= now
}

/** A join by one token. */
export interface Join {
  record: AttemptRecord
  readonly keys: InviteKeys
  /** If the owner asks for a proof: the key to which the request is encrypted, once the relay has returned it. */
  boxKey: Uint8Array | undefined
  /** The state in which the last step found it. */
  seen: JoinState | undefined
  end: JoinEnd | undefined
  /** Calls waiting for the result. */
  readonly waiting: Set<PromiseWithResolvers<AgentChannel>>
  /** Hellos sent since this agent started, and the function that cancels the next step. */
  hellos: number
  /** Whether a hello is being sent. */
  isGreeting: boolean
  cancel: (() => void) | undefined
  /**
   * How often this agent was kept from entering in this session, and the function that cancels the next attempt, if one
   * is due.
   */
  entries: number
  cancelEntry: (() => void) | undefined
}
