/** Rows that expire by themselves: join requests, used nonces, and notices for other nodes. */
import type { StoreEvent, Time } from '../../../ports.ts'
import type { JoinRows } from './joins.ts'

/** The events of a store since a position. */
export interface Notices {
  readonly events: readonly StoreEvent[]
  readonly position: string
  readonly more: boolean
}

/** Short-lived rows of an engine. */
export interface TransientRows {
  readonly joins: JoinRows
  /** Returns false if it was used before. */
  useNonce(nonce: Uint8Array, until: Time): boolean
  /** Keeps an event for other nodes, if the engine supports several. */
  addNotice(event: StoreEvent): void
  notices(after: string | undefined, limit: number): Notices
  /** Deletes what has expired, a limited number of rows at a time. */
  expire(now: Time): void
}
