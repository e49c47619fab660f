/** The entries of an engine. */
import type { AgentId, Entry, Position, Time } from '../../../ports.ts'
import type { Channel } from '../state.ts'

/** Bytes charged for an entry in addition to its body. */
export const ENTRY_OVERHEAD = 200

/** How much an entry counts towards the limits of its channel and sender. */
export interface Weight {
  readonly index: number
  readonly sender: AgentId
  readonly size: number
  readonly at: Time
}

/** The logs of channels. */
export interface LogRows {
  /** `body` is what the chain covers. */
  add(channel: Channel, entry: Entry, body: Uint8Array): void
  /** The entries after a position, up to and including an index, in order. Throws `store_corrupt` at a damaged one. */
  entries(channel: Channel, after: Position, through: number): Iterable<Entry>
  /** The weights of the entries with `after` < index ≤ `through`. */
  weights(channel: Channel, after: number, through: number): Iterable<Weight>
  /** The position of an entry between the base and the last. Throws `store_corrupt` if it is missing or damaged. */
  position(channel: Channel, index: number): Position
  /** Deletes the entries up to and including that index. */
  cut(channel: Channel, through: number): void
}
