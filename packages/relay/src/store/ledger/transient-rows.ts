/** Rows that expire by themselves: join requests, used nonces, and what other nodes must be told. */
import type { AgentId, JoinRequest, StoreEvent, Time } from '../../ports.ts'

/** Whom requests wait for: the id of the agent that registered their invites, or of the channel whose members do. */
export type JoinQueue = string

/** The queue of a request. */
export function queueOf({ owner, channel }: Pick<JoinRequest, 'owner' | 'channel'>): JoinQueue {
  return owner ?? channel
}

/** A join request without its box. */
export interface JoinHeader extends Omit<JoinRequest, 'box' | 'owner'> {
  /** Rises with every request that a channel gets. */
  readonly number: number
  /** The size of its box. */
  readonly size: number
}

/** The events of a store since a position. */
export interface Notices {
  readonly events: readonly StoreEvent[]
  readonly position: string
  readonly more: boolean
}

/** Short-lived rows of an engine. */
export interface TransientRows {
  /** The requests of a queue, oldest first. Expired ones may be among them. */
  joinsOf(queue: JoinQueue): readonly JoinHeader[]
  joinBox(queue: JoinQueue, invite: string, agent: AgentId): Uint8Array
  /** Stores a request as the newest of its queue. There must be none of this agent for this invite. */
  putJoin(join: JoinRequest): void
  dropJoin(invite: string, agent: AgentId): void
  /** Returns false if it was used before. */
  useNonce(nonce: Uint8Array, until: Time): boolean
  /** Keeps an event for other nodes, if there can be any. */
  addNotice(event: StoreEvent): void
  notices(after: string | undefined, limit: number): Notices
  /** Deletes what has expired, a limited number of rows at a time. */
  expire(now: Time): void
}
