/** Slots and turns, from rows that hold them as JSON. */
import { intact } from '../checksum.ts'
import type { Slot, Turn } from '../ledger/state.ts'
import { fromJson } from './json.ts'

/** A slot, from its row with its checksum. */
export function readSlot(row: unknown): Slot {
  return fromJson((intact(row, 'a slot') as [number, number, string])[2]) as Slot
}

/** A turn, from its row with its checksum. */
export function readTurn(row: unknown): Turn {
  return fromJson((intact(row, 'a turn') as [Uint8Array, number, number, string])[3]) as Turn
}
