/** Usage: how much of its plan an account has used this month, by day. */
import type { Usage } from '@static/protocol'
import { dayOf, isoTime, monthOf } from './calendar.ts'
import type { Caller } from './caller.ts'
import type { Leases } from './leases.ts'
import type { Clock, UsageStore } from '../ports.ts'
import { limitOf, type Settings } from '../settings.ts'
import type { KeyUsageBuffer } from './key-usage.ts'

const DAY = 24 * 3600_000

export class Usages {
  readonly #store: UsageStore
  readonly #leases: Leases
  readonly #keyUsage: KeyUsageBuffer
  readonly #quota: Settings['quota']
  readonly #now: Clock

  constructor(store: UsageStore, leases: Leases, keyUsage: KeyUsageBuffer, quota: Settings['quota'], now: Clock) {
    this.#store = store
    this.#leases = leases
    this.#keyUsage = keyUsage
    this.#quota = quota
    this.#now = now
  }

  /** The caller's usage in this month and on each of the last `days` days, oldest first. */
  async read(caller: Caller, days: number): Promise<Usage> {
    const now = this.#now()
    const { start, end } = monthOf(now)
    const meter = { accountId: caller.accountId, mode: caller.mode, period: start }
    await this.#leases.sweep(meter)
    const listed = Array.from({ length: days }, (_, at) => dayOf(now - (days - 1 - at) * DAY))
    const found = await this.#keyUsage.betweenWrites(() => this.#store.read(meter, listed[0] ?? dayOf(now)))
    const limit = limitOf(this.#quota, caller.plan, caller.mode)
    return {
      account_id: caller.accountId,
      plan: caller.plan,
      mode: caller.mode,
      period_start: isoTime(start),
      period_end: isoTime(end),
      resets_at: isoTime(end),
      messages: {
        used: found.used,
        reserved: found.reserved,
        limit,
        remaining: limit === null ? null : Math.max(0, limit - found.used - found.reserved),
      },
      token_exchanges: found.tokenExchanges + this.#keyUsage.pendingExchanges(meter),
      daily: listed.map((date) => ({ date, messages: found.days.get(date) ?? 0 })),
    }
  }
}
