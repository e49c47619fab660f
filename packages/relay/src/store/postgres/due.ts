/**
 * The rows for the sweep. It visits many channels in one transaction, which is decided again whenever something is
 * missing, so everything that it is likely to need is read at once.
 */
import { toHex } from '@static/protocol'
import type { ChannelId, Time } from '../../ports.ts'
import type { DueRows, OldWelcome } from '../ledger/rows/due.ts'
import { type Channel, unawaited } from '../ledger/state.ts'
import { Facts } from './facts.ts'
import { statement } from './session.ts'
import { DUE } from './tables/channel-statements.ts'
import type { ChannelTable } from './tables/channels.ts'
import type { LogTable } from './tables/log.ts'
import type { SlotTable } from './tables/slots.ts'
import type { WelcomeTable } from './tables/welcomes.ts'
import { type Transaction, ask, bytea, send } from './write.ts'

const SWEPT = statement('UPDATE channels SET acked = false WHERE id = ANY($1::bytea[]) AND acked')
/** Number of headers read in advance: of entries that all members have, and of some that may have expired. */
const MAX_HEADERS = 4097
const FIRST_HEADERS = 64
/** Maximum number of damaged channels that are left out. */
const MAX_UNSOUND = 1000

/** The tables that a sweep reads. */
interface SweptTables {
  readonly transaction: Transaction
  readonly channels: ChannelTable
  readonly log: LogTable
  readonly slots: SlotTable
  readonly welcomes: WelcomeTable
}

/** The channels and Welcomes that a sweep finds. */
export class DueTable implements DueRows {
  readonly #tables: SweptTables
  readonly #facts = new Facts()
  /** Channels that the sweep found damaged: it continues without them. */
  readonly #unsound = new Set<ChannelId>()
  #visited: ChannelId | undefined
  /** Something is damaged, but in an unknown channel: then the sweep visits one channel at a time. */
  #isCareful = false

  constructor(tables: SweptTables) {
    this.#tables = tables
  }

  begin(): void {
    this.#facts.clear()
    this.#visited = undefined
  }

  /** Channels with work for the sweep that no other node has locked, except those found damaged. */
  *channels(now: Time, limit: number): Iterable<ChannelId> {
    const ids = this.#facts.need('due', () => this.#fetch(now, limit))
    const { channels, slots } = this.#tables
    const isDue = ({ due }: Channel): boolean => due !== undefined && due <= now
    const found = ids.flatMap((id) => channels.find(id) ?? [])
    slots.expect(found.filter((channel) => isDue(channel) && channel.slotAt !== undefined))
    for (const id of ids) {
      this.#visited = id
      yield id
      this.#visited = undefined
    }
  }

  /** Welcomes from before a time. */
  welcomes(since: Time, limit: number): readonly OldWelcome[] {
    return this.#facts.need('old', async () => {
      const { channels, welcomes } = this.#tables
      const old = await welcomes.readOld(since, limit)
      const whole = await channels.reload([...new Set(old.map(({ channel }) => channel))])
      await welcomes.fetchPending(whole.map(({ number }) => number))
      const ids = new Set(whole.map(({ id }) => id))
      return old.filter(({ channel }) => ids.has(channel))
    })
  }

  write(): void {
    const ids = this.#facts.get('due') as readonly ChannelId[] | undefined
    if (ids && ids.length > 0) send(this.#tables.transaction, SWEPT, [ids.map(bytea)])
    this.#isCareful = false
  }

  /** Called when damage has stopped a sweep: the next one leaves out the damaged channel, or finds it. */
  stopped(): void {
    const id = this.#visited
    this.#isCareful = id === undefined
    if (id !== undefined && this.#unsound.size < MAX_UNSOUND) this.#unsound.add(id)
  }

  async #fetch(now: Time, limit: number): Promise<readonly ChannelId[]> {
    const { transaction, channels, log, welcomes } = this.#tables
    const asked = [now, this.#isCareful ? 1 : limit, [...this.#unsound].map(bytea)]
    const ids = (await ask(transaction, DUE, asked)).map(([id]) => toHex(id as Uint8Array))
    if (this.#isCareful) [this.#visited] = ids
    const found = await channels.reload(ids)
    await Promise.all(found.map((channel) => log.fetchFirst(channel, headersOf(channel, now))))
    await welcomes.fetchPending(found.filter(hasLostWelcome).map(({ number }) => number))
    return ids
  }
}

/** How many headers a sweep is likely to need: one more than it deletes. */
function headersOf(channel: Channel, now: Time): number {
  const free = Math.max(0, unawaited(channel) - channel.base.index)
  const expired = channel.due !== undefined && channel.due <= now ? FIRST_HEADERS : 0
  return Math.min(MAX_HEADERS, 1 + Math.max(free, expired))
}

/** Whether Welcomes wait for agents that are no longer members. */
function hasLostWelcome({ former }: Channel): boolean {
  return former.values().some(({ welcome }) => welcome !== undefined)
}
