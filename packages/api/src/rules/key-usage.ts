/**
 * A write-behind buffer for key usage: the first use of a key is written immediately, later ones at most once
 * a minute, many in one transaction, and the rest when the service stops. Token exchanges are buffered too.
 */
import type { Mode } from '@static/protocol'
import type { Clock, KeyStore, Meter, UsageStore, VerifiableKey } from '../ports.ts'
import { monthOf } from './calendar.ts'

const WRITE_EVERY = 60_000
/** With more pending keys than this, the buffer is flushed immediately. */
const MAX_PENDING = 10_000

/** Buffers usage until it is written. */
export class KeyUsageBuffer {
  readonly #keys: Pick<KeyStore, 'touch'>
  readonly #usage: Pick<UsageStore, 'addTokenExchanges'>
  readonly #now: Clock
  /** Key id → last use, and the last use that the database had when the key was read. */
  #pending = new Map<string, { at: number; readonly written: number }>()
  #exchanges = new Map<string, Meter & { count: number }>()

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

  /** Counts a token exchange. */
  recordExchange(accountId: string, mode: Mode): void {
    const meter = { accountId, mode, period: monthOf(this.#now()).start }
    const pending = this.#exchanges.get(nameOf(meter))
    if (pending) pending.count++
    else this.#exchanges.set(nameOf(meter), { ...meter, count: 1 })
  }

  /** The token exchanges counted but not yet written. */
  pendingExchanges(meter: Meter): number {
    return this.#exchanges.get(nameOf(meter))?.count ?? 0
  }

  /** Writes what is due: key uses whose last write was at least a minute ago, and all token exchanges. */
  async flushDue(): Promise<void> {
    const now = this.#now()
    await this.#write((use) => now - use.written >= WRITE_EVERY)
  }

  /** Writes everything. */
  async flush(): Promise<void> {
    await this.#write(() => true)
  }

  async #write(due: (use: { readonly written: number }) => boolean): Promise<void> {
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

  #keep(exchanges: Map<string, Meter & { count: number }>): void {
    for (const [key, meter] of exchanges) {
      const pending = this.#exchanges.get(key)
      if (pending) pending.count += meter.count
      else this.#exchanges.set(key, meter)
    }
  }
}

function nameOf({ accountId, mode, period }: Meter): string {
  return `${accountId} ${mode} ${period}`
}
