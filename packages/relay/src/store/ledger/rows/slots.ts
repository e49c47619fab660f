/** The commits of an engine that can still be rejected, and their effects on agents. */
import type { AgentId } from '../../../ports.ts'
import type { Channel, Slot, Turn } from '../state.ts'

/** Bytes charged for a remembered commit, and for each of its effects on an agent. */
export const SLOT_BYTES = 600
export const TURN_BYTES = 800

/** Remembered commits. */
export interface SlotRows {
  get(channel: Channel, slot: number): Slot | undefined
  put(channel: Channel, slot: Slot): void
  /** Deletes a slot and its turns. Returns how many rows of each there were. */
  drop(channel: Channel, slot: number): { readonly slots: number; readonly turns: number }
  /** The index of the first commit after an index, among the remembered slots. */
  commitAfter(channel: Channel, index: number): number | undefined
  /** The effects of the commit of a slot. */
  turnsOf(channel: Channel, slot: number): Turn[]
  /** The effects on an agent since the last reset of the roster, from an index on, in order. */
  turnsFrom(channel: Channel, agent: AgentId, index: number): Iterable<Turn>
  putTurn(channel: Channel, turn: Turn): void
  /** Deletes the turns of a slot. Returns how many. */
  dropTurns(channel: Channel, slot: number): number
}
