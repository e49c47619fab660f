/** The ids of an engine: the answers given to messages and commits. */
import type { AgentId, Time } from '../../../ports.ts'
import type { Channel } from '../state.ts'

/** Identifies a message or commit. Ids are scoped to their sender and kind. */
export interface IdKey {
  readonly kind: 'message' | 'commit'
  readonly agent: AgentId
  readonly id: Uint8Array
}

/** The answer given to the request with an id. */
export interface Answered {
  readonly index: number
  /** After the entry. */
  readonly head: number
}

/** Ids of messages and commits. */
export interface IdRows {
  /** An id from before `since` counts as unknown. */
  find(channel: Channel, key: IdKey, since: Time): Answered | undefined
  /** Stores the id. If it is already known, returns the stored answer instead. */
  add(channel: Channel, key: IdKey, answer: Answered & { readonly at: Time }, since: Time): Answered | undefined
  expire(since: Time): void
}
