/** Commits that can still be rejected, and their effects, as maps. */
import type { AgentId, Channel, Slot, SlotRows, Turn } from '@static/relay/internal'
import { keptOf, type MemoryState } from './relay-memory-state.ts'

/** All slots and turns, in memory. */
export class MemorySlotRows implements SlotRows {
  readonly #state: MemoryState

  constructor(state: MemoryState) {
    this.#state = state
  }

  get(channel: Channel, slot: number): Slot | undefined {
    return keptOf(this.#state, channel).slots.get(slot)
  }

  put(channel: Channel, slot: Slot): void {
    keptOf(this.#state, channel).slots.set(slot.slot, slot)
  }

  drop(channel: Channel, slot: number): { readonly slots: number; readonly turns: number } {
    const slots = keptOf(this.#state, channel).slots.delete(slot) ? 1 : 0
    return { slots, turns: this.dropTurns(channel, slot) }
  }

  commitAfter(channel: Channel, index: number): number | undefined {
    for (const { position } of keptOf(this.#state, channel).slots.values())
      if (position.index > index) return position.index
    return undefined
  }

  turnsOf(channel: Channel, slot: number): Turn[] {
    return keptOf(this.#state, channel)
      .turns.filter((turn) => turn.slot === slot && !turn.notice)
      .sort((one, other) => (one.agent < other.agent ? -1 : 1))
  }

  turnsFrom(channel: Channel, agent: AgentId, index: number): Turn[] {
    return keptOf(this.#state, channel).turns.filter(
      (turn) => turn.agent === agent && turn.position.index >= index && turn.slot >= channel.settled,
    )
  }

  putTurn(channel: Channel, turn: Turn): void {
    const { turns } = keptOf(this.#state, channel)
    const known = turns.findIndex(
      ({ agent, position }) => agent === turn.agent && position.index === turn.position.index,
    )
    if (known < 0) turns.push(turn)
    else turns[known] = turn
  }

  dropTurns(channel: Channel, slot: number): number {
    const kept = keptOf(this.#state, channel)
    const before = kept.turns.length
    kept.turns = kept.turns.filter((turn) => turn.slot !== slot)
    return before - kept.turns.length
  }
}
