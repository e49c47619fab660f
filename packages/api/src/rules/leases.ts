/**
 * Quota leases: how several relay nodes enforce one limit exactly (SPEC.md, "Quota leases"). A node may spend only the
 * amount it has leased; any amount not settled in time counts as spent. So the total can never exceed the limit, and a
 * crash costs at most the node's open leases.
 */
import { type AccountStatus, type Lease, type Mode, StaticError } from '@static/protocol'
import { noAccount } from './accounts.ts'
import { dayOf, isoTime, monthOf } from './calendar.ts'
import { isId, newId } from './id.ts'
import type { Clock, LeaseRecord, Meter, Settlement, Store } from '../ports.ts'
import { limitOf, type Settings } from '../settings.ts'
import { invalidField } from './text.ts'

/** A lease after a settlement. */
export interface SettledLease {
  readonly id: string
  readonly spent: number
  /** The amount that may still be spent. */
  readonly remaining: number
  readonly expires_at: string
  readonly expires_in_ms: number
}

/** Totals of a lease by key id. */
type KeyTotals = Readonly<Record<string, number>>

/** A relay's report on a lease: totals so far. */
interface Report {
  readonly spent: number
  readonly final: boolean
  readonly keys: KeyTotals
}

export class Leases {
  readonly #store: Pick<Store, 'leases' | 'accounts'>
  readonly #settings: Settings
  readonly #now: Clock

  constructor(store: Pick<Store, 'leases' | 'accounts'>, settings: Settings, now: Clock) {
    this.#store = store
    this.#settings = settings
    this.#now = now
  }

  /** Leases a share of the remaining quota; 0 if nothing is left. Throws `not_found`, `account_suspended`. */
  async grant(accountId: string, mode: Mode, wanted: number): Promise<Lease> {
    const account = isId(accountId) ? await this.#store.accounts.byId(accountId) : undefined
    if (!account || account.status === 'closed') throw noAccount(accountId)
    if (account.status === 'suspended') throw StaticError.of('account_suspended')
    const now = this.#now()
    const { start, end } = monthOf(now)
    const meter = { accountId, mode, period: start }
    await this.sweep(meter)
    const { chunk, seconds } = this.#settings.lease
    const expiresAt = Math.min(now + seconds * 1000, end)
    const id = newId(now)
    const limit = limitOf(this.#settings.quota, account.plan, mode)
    const { granted, outstanding } = await this.#store.leases.grant({ ...meter, id, expiresAt, limit }, (remaining) =>
      shareOf(remaining, Math.min(wanted, chunk)),
    )
    return {
      id: granted > 0 ? id : null,
      granted,
      outstanding,
      expires_at: isoTime(expiresAt),
      expires_in_ms: expiresAt - now,
      period_end: isoTime(end),
    }
  }

  /**
   * Records the total spent from a lease so far, so that a repeated settlement changes nothing. `keys` gives the part
   * spent by each key. `final` returns the rest; otherwise the lease is renewed, but a blocked account may spend no
   * more of it.
   */
  async settle(id: string, spent: number, final: boolean, keys: KeyTotals = {}): Promise<SettledLease> {
    const now = this.#now()
    let isActive = true
    const change = (lease: LeaseRecord, account: AccountStatus): Settlement => {
      isActive = account === 'active'
      return settle(lease, { spent, final, keys }, now, isActive ? this.#settings.lease.seconds * 1000 : 0)
    }
    const lease = isId(id) ? await this.#store.leases.settle(id, change) : undefined
    if (!lease) throw StaticError.of('not_found', isId(id) ? `There is no lease ${id}.` : 'There is no such lease.')
    return {
      id: lease.id,
      spent: lease.spent,
      remaining: isActive && lease.state === 'open' && lease.expiresAt > now ? lease.amount - lease.spent : 0,
      expires_at: isoTime(lease.expiresAt),
      expires_in_ms: isActive ? Math.max(0, lease.expiresAt - now) : 0,
    }
  }

  /**
   * The accounts among these that are suspended, and those that are closed or do not exist: relays end their sessions.
   */
  async blocked(accountIds: readonly string[]): Promise<{ suspended: string[]; unknown: string[] }> {
    if (!accountIds.every(isId)) throw invalidField('account_ids', 'must be ids of accounts')
    if (accountIds.length === 0) return { suspended: [], unknown: [] }
    const statuses = await this.#store.accounts.statuses(accountIds)
    return {
      suspended: accountIds.filter((id) => statuses.get(id) === 'suspended'),
      unknown: accountIds.filter((id) => (statuses.get(id) ?? 'closed') === 'closed'),
    }
  }

  /** Counts the meter's leases that expired without a settlement as spent. */
  async sweep(meter: Meter): Promise<void> {
    await this.#store.leases.sweep(meter, this.#now(), expire)
  }

  /** Counts every lease that expired without a settlement as spent, even those of idle accounts. */
  async sweepAll(): Promise<void> {
    const now = this.#now()
    for (const meter of await this.#store.leases.expired(now)) await this.#store.leases.sweep(meter, now, expire)
  }
}

/**
 * The amount to lease: at most a quarter of the remaining quota, so that the last messages are spread over all nodes.
 */
function shareOf(remaining: number, wanted: number): number {
  return Math.min(wanted, remaining, Math.max(1, Math.floor(remaining / 4)))
}

/** A lease that was not settled in time counts as spent, on its last day. */
function expire(lease: LeaseRecord): Settlement {
  const rest = lease.amount - lease.spent
  return {
    lease: { ...lease, state: 'expired' },
    used: rest,
    reserved: -rest,
    keys: {},
    day: dayOf(lease.expiresAt - 1),
  }
}

/**
 * How a settlement changes a lease. `spent` is the total so far. Only `final` means that the holder has stopped, so the
 * rest is returned only then. Even if settlements arrive late or twice, everything spent is counted.
 */
function settle(lease: LeaseRecord, { spent, final, keys }: Report, now: number, lifetime: number): Settlement {
  if (spent > lease.amount) throw invalidField('spent', `must be at most ${lease.amount}, the amount of the lease`)
  // A settlement that arrives after a later one reports less than is already known.
  const total = Math.max(spent, lease.spent)
  const more = total - lease.spent
  const rest = lease.amount - total
  const { end } = monthOf(lease.period)
  const day = dayOf(Math.min(now, end - 1))
  const byKey = { ...lease.byKey }
  const added: Record<string, number> = {}
  for (const [key, sum] of Object.entries(keys)) {
    if (!isId(key)) throw invalidField('keys', 'must have ids of keys as names')
    const before = byKey[key] ?? 0
    if (sum <= before) continue
    byKey[key] = sum
    added[key] = sum - before
  }
  if (Object.values(byKey).reduce((all, sum) => all + sum, 0) > total) {
    throw invalidField('keys', `must not have spent more than ${total}, the total of the lease`)
  }
  const updated = { ...lease, spent: total, byKey }
  switch (lease.state) {
    case 'open': {
      if (final) return { lease: { ...updated, state: 'closed' }, used: more, reserved: -more - rest, keys: added, day }
      const expiresAt = Math.max(lease.expiresAt, Math.min(now + lifetime, end))
      return { lease: { ...updated, expiresAt }, used: more, reserved: -more, keys: added, day }
    }
    case 'expired': {
      // It was counted as fully spent on its last day; a final settlement returns the rest on that day.
      const used = final ? -rest : 0
      return {
        lease: { ...updated, state: final ? 'closed' : 'expired' },
        used,
        reserved: 0,
        keys: added,
        day: dayOf(lease.expiresAt - 1),
      }
    }
    case 'closed':
      return { lease: updated, used: more, reserved: 0, keys: added, day }
  }
}
