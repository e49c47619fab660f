/**
 * Quota leases: how several relay nodes keep one limit exactly (SPEC.md, "Quota leases").
 * A node may spend only what it holds; what it does not account for in time counts as spent.
 * So the sum can never pass the limit, and a crash costs at most what the node held.
 */
import { type Lease, type Mode, StaticError } from '@static/protocol'
import { dayOf, isoTime, monthOf } from './calendar.ts'
import { isId, newId } from './id.ts'
import type { Clock, LeaseRecord, Meter, Settlement, Store } from '../ports.ts'
import { quotaOf, type Settings } from '../settings.ts'
import { invalidField } from './text.ts'

/** How a lease stands after a settlement. */
export interface SettledLease {
  readonly id: string
  readonly spent: number
  /** What may still be spent of it. */
  readonly remaining: number
  readonly expires_at: string
}

/** The rules about leases. */
export class Leases {
  readonly #store: Pick<Store, 'leases' | 'accounts'>
  readonly #settings: Settings
  readonly #now: Clock

  constructor(store: Pick<Store, 'leases' | 'accounts'>, settings: Settings, now: Clock) {
    this.#store = store
    this.#settings = settings
    this.#now = now
  }

  /** Lends a share of what is left; 0 when nothing is. Throws `not_found`, `account_suspended`. */
  async grant(accountId: string, mode: Mode, wanted: number): Promise<Lease> {
    const account = isId(accountId) ? await this.#store.accounts.byId(accountId) : undefined
    if (!account || account.status === 'closed') throw StaticError.of('not_found', 'There is no such account.')
    if (account.status === 'suspended') throw StaticError.of('account_suspended', 'This account is suspended.')
    const now = this.#now()
    const { start, end } = monthOf(now)
    const meter = { accountId, mode, period: start }
    await this.sweep(meter)
    const { chunk, seconds } = this.#settings.lease
    const expiresAt = Math.min(now + seconds * 1000, end)
    const id = newId(now)
    const limit = quotaOf(this.#settings.quota, account.plan, mode)
    const { granted, outstanding } = await this.#store.leases.grant({ ...meter, id, expiresAt, limit }, (remaining) =>
      shareOf(remaining, Math.min(wanted, chunk)),
    )
    return {
      id: granted > 0 ? id : null,
      granted,
      outstanding,
      expires_at: isoTime(expiresAt),
      period_end: isoTime(end),
    }
  }

  /**
   * Books what was spent of a lease in all so far, so that a repeated settlement changes nothing.
   * `final` gives the rest back; otherwise the lease is renewed.
   */
  async settle(id: string, spent: number, final: boolean): Promise<SettledLease> {
    const now = this.#now()
    const change = (lease: LeaseRecord): Settlement =>
      settle(lease, spent, final, now, this.#settings.lease.seconds * 1000)
    const lease = isId(id) ? await this.#store.leases.settle(id, change) : undefined
    if (!lease) throw StaticError.of('not_found', 'There is no such lease.')
    return {
      id: lease.id,
      spent: lease.spent,
      remaining: lease.state === 'open' && lease.expiresAt > now ? lease.amount - lease.spent : 0,
      expires_at: isoTime(lease.expiresAt),
    }
  }

  /** Books the meter's leases that ended without settlement. */
  async sweep(meter: Meter): Promise<void> {
    await this.#store.leases.sweep(meter, this.#now(), expire)
  }

  /** Books every lease that ended without settlement, of accounts that nobody asks about too. */
  async sweepAll(): Promise<void> {
    const now = this.#now()
    for (const meter of await this.#store.leases.expired(now)) await this.#store.leases.sweep(meter, now, expire)
  }
}

/** How much to lend: a quarter of what is left, so that the last messages are spread over all who ask. */
function shareOf(remaining: number, wanted: number): number {
  return Math.min(wanted, remaining, Math.max(1, Math.floor(remaining / 4)))
}

/** A lease that nobody settled in time counts as spent, on its last day. */
function expire(lease: LeaseRecord): Settlement {
  const rest = lease.amount - lease.spent
  return { lease: { ...lease, state: 'expired' }, used: rest, reserved: -rest, day: dayOf(lease.expiresAt - 1) }
}

/**
 * How a settlement changes a lease. `spent` is the total so far; only `final` says that the holder has stopped, so only
 * then is the rest given back. Whatever comes late or twice, nothing that was spent is left out.
 */
function settle(lease: LeaseRecord, spent: number, final: boolean, now: number, lifetime: number): Settlement {
  if (spent > lease.amount) throw invalidField('spent', `must be at most ${lease.amount}, the amount of the lease`)
  // A settlement that was overtaken by a later one tells less than is known.
  const total = Math.max(spent, lease.spent)
  const more = total - lease.spent
  const rest = lease.amount - total
  const { end } = monthOf(lease.period)
  const day = dayOf(Math.min(now, end - 1))
  const told = { ...lease, spent: total }
  switch (lease.state) {
    case 'open': {
      if (final) return { lease: { ...told, state: 'closed' }, used: more, reserved: -more - rest, day }
      const expiresAt = Math.max(lease.expiresAt, Math.min(now + lifetime, end))
      return { lease: { ...told, expiresAt }, used: more, reserved: -more, day }
    }
    case 'expired': {
      // It was booked as spent in full, on its last day; the holder's last word gives the rest back there.
      const used = final ? -rest : 0
      return {
        lease: { ...told, state: final ? 'closed' : 'expired' },
        used,
        reserved: 0,
        day: dayOf(lease.expiresAt - 1),
      }
    }
    case 'closed':
      return { lease: told, used: more, reserved: 0, day }
  }
}
