/** Commits that can still be rejected, and their effects on agents, in SQLite. */
import { fromHex } from '@static/protocol'
import type { AgentId } from '../../../ports.ts'
import { sealed } from '../../checksum.ts'
import type { SlotRows } from '../../ledger/rows/slots.ts'
import type { Channel, Slot, Turn } from '../../ledger/state.ts'
import { toJson } from '../../records/json.ts'
import { readSlot, readTurn } from '../../records/slot.ts'
import { type Statements, iterate } from '../statements.ts'

/** The slots and turns of an open database. */
export class SqliteSlotRows implements SlotRows {
  readonly #statements: Statements

  constructor(statements: Statements) {
    this.#statements = statements
  }

  get({ number }: Channel, slot: number): Slot | undefined {
    const row = this.#statements.slot.get(number, slot)
    return row && readSlot(row)
  }

  put({ number }: Channel, slot: Slot): void {
    this.#statements.putSlot.run(number, ...sealed([slot.slot, slot.position.index, toJson(slot)]))
  }

  drop(channel: Channel, slot: number): { readonly slots: number; readonly turns: number } {
    const slots = Number(this.#statements.dropSlot.run(channel.number, slot).changes)
    return { slots, turns: this.dropTurns(channel, slot) }
  }

  commitAfter({ number }: Channel, index: number): number | undefined {
    const row = this.#statements.commitAfter.get(number, index) as unknown as [number] | undefined
    return row?.[0]
  }

  turnsOf({ number }: Channel, slot: number): Turn[] {
    const turns = this.#statements.turnsOf.all(number, slot).map(readTurn)
    return turns.filter(({ notice }) => !notice)
  }

  *turnsFrom({ number, settled }: Channel, agent: AgentId, index: number): Iterable<Turn> {
    for (const row of iterate(this.#statements.turnsFrom, number, fromHex(agent), index, settled)) yield readTurn(row)
  }

  putTurn({ number }: Channel, turn: Turn): void {
    const { agent, position, slot } = turn
    this.#statements.putTurn.run(number, ...sealed([fromHex(agent), position.index, slot, toJson(turn)]))
  }

  dropTurns({ number }: Channel, slot: number): number {
    return Number(this.#statements.dropTurns.run(number, slot).changes)
  }
}
