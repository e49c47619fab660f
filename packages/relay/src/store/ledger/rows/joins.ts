/**
 * The join requests of an engine. Anyone with a token can add to a queue, so only methods that end a whole queue read
 * all of it: the others take time in proportion to what they return, or to the index entries they count.
 */
import type { AgentId, ChannelId, JoinRequest, Time } from '../../../ports.ts'

/**
 * Where requests wait: the id of the agent that registered their invites, or of the channel whose members may admit.
 */
export type JoinQueue = string

/** The queue of a request. */
export function queueOf({ owner, channel }: Pick<JoinRequest, 'owner' | 'channel'>): JoinQueue {
  return owner ?? channel
}

/** Identifies a request. */
export type JoinKey = Pick<JoinRequest, 'invite' | 'agent'>

/** A join request without its box. */
export interface JoinHeader extends Omit<JoinRequest, 'box' | 'owner'> {
  readonly queue: JoinQueue
  /** Rises with every request that a channel gets. */
  readonly number: number
  /** The size of its box. */
  readonly size: number
}

/** A number of requests, and the bytes of their boxes. */
export interface JoinWeight {
  readonly count: number
  readonly bytes: number
}

/** The unexpired requests of a queue to join a channel. */
export interface JoinPlace {
  readonly queue: JoinQueue
  readonly channel: ChannelId
  readonly now: Time
}

/** Join requests, by their lookups. */
export interface JoinRows {
  /** May have expired. */
  get(invite: string, agent: AgentId): JoinHeader | undefined
  /** At most `limit` requests with a number above `after`, oldest first. */
  after(place: JoinPlace, after: number, limit: number): readonly JoinHeader[]
  /** The numbers of all requests up to one, in order. */
  numbers(place: JoinPlace, through: number): readonly number[]
  boxes(joins: readonly JoinHeader[]): readonly Uint8Array[]
  /** The weight of the unexpired requests in a queue: for one invite, or in total. */
  weight(queue: JoinQueue, now: Time, invite?: string): JoinWeight
  /** The same for each invite. */
  weights(queue: JoinQueue, now: Time): ReadonlyMap<string, JoinWeight>
  /** The requests of a queue except for the newest `kept`, oldest first. Expired ones count too. */
  beyond(queue: JoinQueue, kept: number): readonly JoinKey[]
  /** The requests for invites in a queue, oldest first; of an agent to join a channel; of all to join a channel. */
  forInvites(queue: JoinQueue, invites: readonly string[]): readonly JoinKey[]
  ofAgent(channel: ChannelId, agent: AgentId): readonly JoinKey[]
  inChannel(channel: ChannelId): readonly JoinKey[]
  /** Stores a request as the newest of its queue. There must be none of this agent for this invite. */
  put(join: JoinRequest): void
  drop(key: JoinKey): void
}
