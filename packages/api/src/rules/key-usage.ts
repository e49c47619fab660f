/**
 * A write-behind buffer for key usage: the first use of a key is written immediately, later ones at most once a minute,
 * many in one transaction, and the rest when the service stops. Token exchanges are buffered as well.
 */
import type { Clock, KeyStore, Meter, UsageStore, VerifiableKey } from '../ports.ts'
import { monthOf } from './calendar.ts'

const WRITE_EVERY = 60_000
/** With more pending keys than this, the buffer is flushed immediately. */
const MAX_PENDING = 10_000
/** If a write interrupts this many reads in a row, the count may be inexact. */
const MOST_READS = 3

/** Token exchanges of one key in one month. */
type Exchanges = Meter & { readonly keyId: string; count: number }

/** Buffers usage until it is written. */
export class KeyUsageBuffer {
  readonly #keys: Pick<KeyStore, 'touch'>
  readonly #usage: Pick<UsageStore, 'addTokenExchanges'>
  readonly #now: Clock
  /** Key id → last use, and the last use that the database had when the key was read. */
  #pending = new Map<string, { at: number; readonly written: number }>()
  /** By key and month. */
  #exchanges = new Map<string, Exchanges>()
  #last: Promise<void> = Promise.resolve()

  constructor(keys: Pick<KeyStore, 'touch'>, usage: Pick<UsageStore, 'addTokenExchanges'>, now: Clock) {
    this.#keys = keys
    this.#usage = usage
    this.#now = now
  }

  /** Records that a key was used. Returns a promise only if something is written immediately. */
  recordUse(key: VerifiableKey): Promise<void> | undefined {
    const at = this.#now()
    if (key.lastUsedAt === null) return this.#keys.touch(new Map([[key.id, at]]))
    const pending = this.#pending.get(key.id)
    if (pending) pending.at = Math.max(pending.at, at)
    else this.#pending.set(key.id, { at, written: key.lastUsedAt })
    return this.#pending.size > MAX_PENDING ? this.flush() : undefined
  }

  recordExchange({ id: keyId, accountId, mode }: Pick<VerifiableKey, 'id' | 'accountId' | 'mode'>): void {
    const { start: period } = monthOf(this.#now())
    const pending = this.#exchanges.get(nameOf(keyId, period))
    if (pending) pending.count++
    else this.#exchanges.set(nameOf(keyId, period), { keyId, accountId, mode, period, count: 1 })
  }

  /** The meter's token exchanges that are counted but not yet written. */
  pendingExchanges({ accountId, mode, period }: Meter): number {
    let sum = 0
    for (const pending of this.#exchanges.values()) {
      if (pending.accountId === accountId && pending.mode === mode && pending.period === period) sum += pending.count
    }
    return sum
  }

  /** The same for one key. */
  pendingExchangesOf(keyId: string, period: number): number {
    return this.#exchanges.get(nameOf(keyId, period))?.count ?? 0
  }

  /**
   * The result of a query while nothing is being written. Together with the pending exchanges, it contains every
   * exchange once.
   */
  async betweenWrites<T>(query: () => Promise<T>): Promise<T> {
    for (let reads = 1; ; reads++) {
      const last = this.#last
      await last
      const found = await query()
      if (last === this.#last || reads === MOST_READS) return found
    }
  }

  /** Writes whatever is due: key uses whose last write was at least a minute ago, and all token exchanges. */
  async flushDue(): Promise<void> {
    const now = this.#now()
    await this.#write((use) => now - use.written >= WRITE_EVERY)
  }

  async flush(): Promise<void> {
    await this.#write(() => true)
  }

  /** Serializes writes: when a flush resolves, everything recorded before it is written. */
  #write(due: (use: { readonly written: number }) => boolean): Promise<void> {
    const written = this.#last.then(() => this.#writeNow(due))
    this.#last = written.catch(() => {})
    return written
  }

  async #writeNow(due: (use: { readonly written: number }) => boolean): Promise<void> {
    const uses = new Map<string, number>()
    for (const [id, use] of this.#pending) {
      if (!due(use)) continue
      uses.set(id, use.at)
      this.#pending.delete(id)
    }
    const exchanges = this.#exchanges
    this.#exchanges = new Map()
    try {
      await this.#keys.touch(uses)
    } catch (error) {
      // Keep them for the next flush, unless there are newer ones.
      for (const [id, at] of uses) if (!this.#pending.has(id)) this.#pending.set(id, { at, written: 0 })
      this.#keep(exchanges)
      throw error
    }
    try {
      await this.#usage.addTokenExchanges([...exchanges.values()])
    } catch (error) {
      this.#keep(exchanges)
      throw error
    }
  }

  #keep(exchanges: Map<string, Exchanges>): void {
    for (const [key, meter] of exchanges) {
      const pending = this.#exchanges.get(key)
      if (pending) pending.count += meter.count
      else this.#exchanges.set(key, meter)
    }
  }
}

function nameOf(keyId: string, period: number): string {
  return `${keyId} ${period}`
}
