/**
 * The join requests of an engine. Whoever has a token can add to a queue, so nothing here reads a whole one into memory,
 * except where all of it ends: each method takes as long as what it returns, or as the index entries that it counts.
 */
import type { AgentId, ChannelId, JoinRequest, Time } from '../../../ports.ts'

/** Whom requests wait for: the id of the agent that registered their invites, or of the channel whose members do. */
export type JoinQueue = string

/** The queue of a request. */
export function queueOf({ owner, channel }: Pick<JoinRequest, 'owner' | 'channel'>): JoinQueue {
  return owner ?? channel
}

/** What names a request. */
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

/** The requests of a queue to join a channel, of those that have not expired. */
export interface JoinPlace {
  readonly queue: JoinQueue
  readonly channel: ChannelId
  readonly now: Time
}

/** Join requests, by what they are looked up by. */
export interface JoinRows {
  /** May have expired. */
  get(invite: string, agent: AgentId): JoinHeader | undefined
  /** At most `limit` requests with a number above `after`, oldest first. */
  after(place: JoinPlace, after: number, limit: number): readonly JoinHeader[]
  /** The numbers of all requests up to one, in order. */
  numbers(place: JoinPlace, through: number): readonly number[]
  boxes(joins: readonly JoinHeader[]): readonly Uint8Array[]
  /** What is in a queue and has not expired: for one invite, or in all. */
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
