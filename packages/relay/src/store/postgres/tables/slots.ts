/** Commits that can still be rejected, and their effects on agents. */
import { toHex } from '@static/protocol'
import type { AgentId } from '../../../ports.ts'
import { sealed } from '../../checksum.ts'
import type { SlotRows } from '../../ledger/rows/slots.ts'
import type { Channel, Slot, Turn } from '../../ledger/state.ts'
import { toJson } from '../../records/json.ts'
import { readSlot, readTurn } from '../../records/slot.ts'
import { Facts, Missing, type Table } from '../facts.ts'
import { type Row, statement } from '../session.ts'
import { type Transaction, ask, bytea, columns, send } from '../write.ts'
import type { ChannelTable } from './channels.ts'

const SLOT = statement('SELECT slot, entry, record, checksum FROM slots WHERE channel = $1 AND slot = $2')
const NEXT_COMMITS = statement(
  'SELECT slot, entry FROM slots WHERE channel = $1 AND entry > $2 ORDER BY entry LIMIT $3',
)
// The next slots of some channels, with the number of their turns.
const NEXT_SLOTS = statement(`SELECT s.channel,
    (SELECT count(*) FROM turns t WHERE t.channel = s.channel AND t.slot = s.slot), s.slot, s.entry, s.record, s.checksum
  FROM unnest($1::bigint[], $2::bigint[]) u (channel, first) CROSS JOIN LATERAL
    (SELECT * FROM slots WHERE channel = u.channel AND slot >= u.first ORDER BY slot LIMIT $3) s`)
const COUNT_TURNS = statement('SELECT count(*) FROM turns WHERE channel = $1 AND slot = $2')
const TURN = 'agent, entry, slot, record, checksum FROM turns'
const TURNS_OF_SLOT = statement(`SELECT ${TURN} WHERE channel = $1 AND slot = $2`)
const TURNS_OF_AGENTS = statement(`SELECT ${TURN} WHERE channel = $1 AND agent = ANY($2::bytea[]) AND slot >= $3`)
const PUT_SLOT = statement(`INSERT INTO slots VALUES ($1, $2, $3, $4, $5) ON CONFLICT (channel, slot)
  DO UPDATE SET entry = excluded.entry, record = excluded.record, checksum = excluded.checksum`)
const DROP_SLOTS = statement('DELETE FROM slots WHERE channel = $1 AND slot = ANY($2::bigint[])')
const PUT_TURNS = statement(`INSERT INTO turns
  SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
  ON CONFLICT (channel, agent, entry)
  DO UPDATE SET slot = excluded.slot, record = excluded.record, checksum = excluded.checksum`)
const TURN_COLUMNS = 6
const DROP_TURNS = statement('DELETE FROM turns WHERE channel = $1 AND slot = ANY($2::bigint[])')

/** How many slots are fetched at a time to be dropped: of one channel, or of each of several channels. */
const FETCHED_SLOTS = 1024
const FETCHED_OF_EACH = 64
const FETCHED_CHANNELS = 64

/** What a batch changes in one channel. */
class Changed {
  /** Undefined: deleted. */
  readonly slots = new Map<number, Slot | undefined>()
  /** By agent and index. */
  readonly turns = new Map<string, Turn>()
  /** Slots whose stored turns are deleted. */
  readonly dropped = new Set<number>()
}

/** The slots and turns of a transaction's channels. */
export class SlotTable implements SlotRows, Table {
  readonly #transaction: Transaction
  readonly #channels: ChannelTable
  readonly #facts = new Facts()
  readonly #changed = new Map<number, Changed>()
  /** Channels whose slots the sweep is likely to drop, each with its first slot, if not fetched yet. */
  readonly #expected = new Map<number, number>()
  /** Channels whose slots are dropped. */
  readonly #dropping = new Set<number>()

  constructor(transaction: Transaction, channels: ChannelTable) {
    this.#transaction = transaction
    this.#channels = channels
  }

  begin(): void {
    this.#facts.clear()
    this.#expected.clear()
    this.#dropping.clear()
    this.rewind()
  }

  rewind(): void {
    this.#changed.clear()
  }

  get(channel: Channel, slot: number): Slot | undefined {
    const { slots } = this.#of(channel)
    return slots.has(slot) ? slots.get(slot) : this.#stored(channel, slot)
  }

  put(channel: Channel, slot: Slot): void {
    this.#channels.changed(channel)
    this.#of(channel).slots.set(slot.slot, slot)
  }

  drop(channel: Channel, slot: number): { readonly slots: number; readonly turns: number } {
    const slots = this.get(channel, slot) ? 1 : 0
    const changed = this.#of(channel)
    // The count is enough unless this batch has changed some.
    const turns = changed.turns.size === 0 ? this.#countTurns(channel, slot) : this.dropTurns(channel, slot)
    changed.dropped.add(slot)
    changed.slots.set(slot, undefined)
    return { slots, turns }
  }

  /** The slots are in the order of their entries, so those dropped in this batch may have to be skipped. */
  commitAfter(channel: Channel, index: number): number | undefined {
    const { number } = channel
    const { slots } = this.#of(channel)
    const own = [...slots.values()].flatMap((slot) => (slot && slot.position.index > index ? slot.position.index : []))
    const limit = 1 + slots.size
    const rows = this.#facts.need(`after ${number} ${index} ${limit}`, () =>
      ask(this.#transaction, NEXT_COMMITS, [number, index, limit]),
    )
    const stored = rows.find(([slot]) => !slots.has(slot as number))
    const all = stored ? [...own, stored[1] as number] : own
    return all.length > 0 ? Math.min(...all) : undefined
  }

  turnsOf(channel: Channel, slot: number): Turn[] {
    const turns = this.#allTurnsOf(channel, slot).filter(({ notice }) => !notice)
    return turns.sort((one, other) => (one.agent < other.agent ? -1 : 1) || byEntry(one, other))
  }

  turnsFrom(channel: Channel, agent: AgentId, index: number): Turn[] {
    const { number, settled } = channel
    const rows = this.#facts.get(`turns of ${number} ${agent} ${settled}`) as readonly Row[] | undefined
    if (!rows) throw new Missing(() => this.fetchTurns(channel, [agent]))
    return this.#merge(channel, rows, (turn) => turn.agent === agent && turn.slot >= settled)
      .filter(({ position }) => position.index >= index)
      .sort(byEntry)
  }

  putTurn(channel: Channel, turn: Turn): void {
    this.#of(channel).turns.set(keyOf(turn), turn)
  }

  dropTurns(channel: Channel, slot: number): number {
    const turns = this.#allTurnsOf(channel, slot)
    const changed = this.#of(channel)
    for (const turn of turns) changed.turns.delete(keyOf(turn))
    changed.dropped.add(slot)
    return turns.length
  }

  /** Notes that the sweep is likely to drop slots of these channels, so that they are fetched together. */
  expect(channels: readonly Pick<Channel, 'number' | 'firstSlot'>[]): void {
    for (const { number, firstSlot } of channels) if (!this.#dropping.has(number)) this.#expected.set(number, firstSlot)
  }

  /** Reads the turns of agents since the last reset of the roster. */
  async fetchTurns({ number, settled }: Channel, agents: readonly AgentId[]): Promise<void> {
    const keys = new Map<AgentId, Row[]>()
    for (const agent of agents) if (!this.#facts.has(`turns of ${number} ${agent} ${settled}`)) keys.set(agent, [])
    if (keys.size === 0) return
    const rows = await ask(this.#transaction, TURNS_OF_AGENTS, [number, [...keys.keys()].map(bytea), settled])
    for (const row of rows) keys.get(toHex(row[0] as Uint8Array))?.push(row)
    for (const [agent, found] of keys) this.#facts.set(`turns of ${number} ${agent} ${settled}`, found)
  }

  write(): void {
    for (const [number, { slots, turns, dropped }] of this.#changed) {
      if (dropped.size > 0) send(this.#transaction, DROP_TURNS, [number, [...dropped]])
      const lost = [...slots].flatMap(([at, slot]) => (slot ? [] : [at]))
      if (lost.length > 0) send(this.#transaction, DROP_SLOTS, [number, lost])
      for (const [at, slot] of slots) {
        if (slot) send(this.#transaction, PUT_SLOT, [number, ...sealed([at, slot.position.index, toJson(slot)])])
      }
      const rows = [...turns.values()].map((turn) => {
        return [number, ...sealed([bytea(turn.agent), turn.position.index, turn.slot, toJson(turn)])]
      })
      if (rows.length > 0) send(this.#transaction, PUT_TURNS, columns(rows, TURN_COLUMNS))
    }
  }

  /** The channel is deleted: its rows go with it. */
  dropChannel({ number }: Channel): void {
    this.#changed.delete(number)
  }

  #of({ number }: Channel): Changed {
    const changed = this.#changed.get(number) ?? new Changed()
    this.#changed.set(number, changed)
    return changed
  }

  #stored({ number }: Channel, slot: number): Slot | undefined {
    const key = slotKey(number, slot)
    if (this.#dropping.has(number) && !this.#facts.has(key)) throw new Missing(() => this.#fetchNext(number, slot))
    const [row] = this.#facts.need(key, () => ask(this.#transaction, SLOT, [number, slot]))
    return row && readSlot(row)
  }

  #countTurns({ number }: Channel, slot: number): number {
    const count = this.#facts.get(countKey(number, slot)) as number | undefined
    if (count === undefined) throw new Missing(() => this.#fetchNext(number, slot))
    return count
  }

  /** Reads the slots of a channel from one on, and those that the sweep will ask for next. */
  async #fetchNext(number: number, slot: number): Promise<void> {
    this.#expected.delete(number)
    const isFirst = !this.#dropping.has(number)
    const others = isFirst ? [...this.#expected].slice(0, FETCHED_CHANNELS - 1) : []
    const firsts: readonly (readonly [number, number])[] = [[number, slot], ...others]
    const limit = isFirst ? FETCHED_OF_EACH : FETCHED_SLOTS
    const asked = [firsts.map(([channel]) => channel), firsts.map(([, first]) => first), limit]
    const rowsOf = Map.groupBy(await ask(this.#transaction, NEXT_SLOTS, asked), ([channel]) => channel as number)
    for (const [channel, first] of firsts) {
      this.#expected.delete(channel)
      this.#dropping.add(channel)
      const rows = rowsOf.get(channel) ?? []
      let next = first
      for (const [, turns, ...row] of rows) {
        const at = row[0] as number
        this.#facts.set(slotKey(channel, at), [row])
        this.#facts.set(countKey(channel, at), turns)
        next = at + 1
      }
      if (rows.length < limit) this.#facts.set(slotKey(channel, next), [])
      if (rows[0]?.[2] === first) continue
      this.#facts.set(slotKey(channel, first), [])
      const [count] = await ask(this.#transaction, COUNT_TURNS, [channel, first])
      this.#facts.set(countKey(channel, first), count?.[0])
    }
  }

  #allTurnsOf(channel: Channel, slot: number): Turn[] {
    const { number } = channel
    const rows = this.#facts.need(`turns at ${number} ${slot}`, async () => {
      const found = await ask(this.#transaction, TURNS_OF_SLOT, [number, slot])
      // A rejection replays the later turns of all these agents.
      const agents = found.map(([agent]) => toHex(agent as Uint8Array))
      await this.fetchTurns(channel, [...new Set(agents)])
      return found
    })
    return this.#merge(channel, rows, (turn) => turn.slot === slot)
  }

  /** Stored turns, merged with those that the batch has replaced or added. */
  #merge(channel: Channel, rows: readonly Row[], isMeant: (turn: Turn) => boolean): Turn[] {
    const { turns, dropped } = this.#of(channel)
    const stored = rows.map(readTurn).filter((turn) => !dropped.has(turn.slot) && !turns.has(keyOf(turn)))
    return [...stored, ...[...turns.values()].filter(isMeant)]
  }
}

function slotKey(channel: number, slot: number): string {
  return `slot ${channel} ${slot}`
}

function countKey(channel: number, slot: number): string {
  return `turns of slot ${channel} ${slot}`
}

function keyOf({ agent, position }: Turn): string {
  return `${agent} ${position.index}`
}

function byEntry(one: Turn, other: Turn): number {
  return one.position.index - other.position.index
}
