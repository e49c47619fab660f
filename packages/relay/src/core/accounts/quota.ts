/**
 * Quota leases (SPEC.md, "Quota leases"): the API leases a number of messages to the relay, and the relay spends only
 * those. A unit is reserved before a message goes to the store and used once the store has charged it, so the relay
 * reports exactly the accepted messages to the API. All times here are from the monotonic clock.
 */
import type { Lease } from '@static/protocol'
import { type Account, accountKey, type BlockReason, type Time } from '../../ports.ts'
import type { BlockedAccounts } from './blocked-accounts.ts'
import type { Effects } from '../effects.ts'
import type { Outcome } from '../io.ts'
import { type RefusalDetails, refusalOf } from '../server-messages.ts'

/** A reserved unit of a lease: one message. */
export interface Unit {
  /** The message was charged; `key` is the id of the sender's API key, if known. */
  use(key?: string): void
  /** The message was not charged: returns the unit. */
  release(): void
}

interface HeldLease {
  readonly id: string
  readonly amount: number
  used: number
  /** How much of `used` each key has used. */
  readonly byKey: Map<string, number>
  reserved: number
  /** The part of `used` that the API has confirmed. */
  reported: number
  expiresAt: Time
  reporting: boolean
  /** The API could not be reached: no retry before this time. */
  retryAt: Time
}

interface Meter {
  readonly account: Account
  leases: HeldLease[]
  asking: boolean
  waiting: Waiter[]
  /** The API's last refusal, and how long it is reused. */
  refusal: RefusalDetails | undefined
  refusedUntil: Time
}

/** The leases of a node in numbers, for the metrics. */
export interface LeaseCounts {
  readonly open: number
  /** Unspent units of the open leases. */
  readonly unspent: number
  /** Requests waiting for a lease. */
  readonly waiting: number
  /** Accounts whose last request for quota was recently refused or went unanswered. */
  readonly refused: number
}

type Waiter = (result: Unit | RefusalDetails) => void

/** The API's answer to a settlement that keeps the lease open. */
interface Settled {
  readonly remaining: number
  readonly expires_in_ms: number
}

/** No unit is spent this close to a lease's expiry, because clocks run at slightly different speeds. */
const MARGIN_MS = 5000
const RENEW_MS = 30_000
const MAX_WAITING = 10_000
const EXCEEDED_MS = 5000
const UNAVAILABLE_MS = 1000
/** Temporary: the API cannot be reached, or the remaining quota is leased to others. */
const NO_QUOTA_NOW: RefusalDetails = {
  refused: 'unavailable',
  message: 'The relay cannot get quota for this account from the API right now. Retry later.',
  retryAfterMs: UNAVAILABLE_MS,
}
/** Maximum number of keys whose use of a lease is counted; the API allows an account fewer. */
const MAX_KEYS = 200
/** Maximum lifetime of a lease, counted from its request, whatever the API says. */
const LEASE_MS = 60_000
/** How long a final settlement, which returns the rest of a lease, is retried. */
const OWED_MS = 3_600_000

export class Quota {
  readonly #effects: Effects
  readonly #blocked: BlockedAccounts
  readonly #meters = new Map<string, Meter>()
  /** Final settlements that the API has not confirmed. */
  readonly #owed = new Map<string, { readonly lease: HeldLease; readonly since: Time }>()
  #closed = false

  constructor(effects: Effects, blocked: BlockedAccounts) {
    this.#effects = effects
    this.#blocked = blocked
  }

  get counts(): LeaseCounts {
    const counts = { open: 0, unspent: 0, waiting: 0, refused: 0 }
    for (const { leases, waiting, refusal, refusedUntil } of this.#meters.values()) {
      counts.open += leases.length
      for (const { amount, used } of leases) counts.unspent += amount - used
      counts.waiting += waiting.length
      if (refusal && this.#effects.monotonic < refusedUntil) counts.refused++
    }
    return counts
  }

  /** The accounts that recently needed quota. */
  *accounts(): Iterable<string> {
    for (const { account } of this.#meters.values()) yield account.id
  }

  /** Returns the leases of an account that is now blocked. */
  block(id: string, reason: BlockReason): void {
    for (const meter of this.#meters.values()) {
      if (meter.account.id !== id) continue
      for (const lease of meter.leases) this.#finish(meter, lease)
      for (const waiter of meter.waiting.splice(0)) waiter({ refused: reason })
    }
  }

  /** Reserves a unit: immediately if a lease has one, otherwise when the API has answered. Keeps the order of calls. */
  take(account: Account, then: Waiter): void {
    const reason = this.#blocked.reason(account.id)
    if (reason !== undefined) return then({ refused: reason })
    const meter = this.#meter(account)
    const lease = meter.waiting.length === 0 ? this.#usable(meter) : undefined
    if (lease) {
      then(this.#reserve(lease))
      // Request the next lease before this one is used up.
      if (left(meter) < lease.amount / 4) this.#ask(meter)
      return
    }
    if (meter.refusal && this.#effects.monotonic < meter.refusedUntil) {
      then(meter.refusal)
    } else if (meter.waiting.length >= MAX_WAITING) {
      then(NO_QUOTA_NOW)
    } else {
      meter.waiting.push(then)
      this.#ask(meter)
    }
  }

  /** Reserves `count` units, or none. */
  takeSeveral(account: Account, count: number, then: (result: readonly Unit[] | RefusalDetails) => void): void {
    const units: Unit[] = []
    let [open, refusal]: [number, RefusalDetails | undefined] = [count, undefined]
    if (open === 0) return then(units)
    const taken = (result: Unit | RefusalDetails): void => {
      open--
      if ('refused' in result) refusal ??= result
      else units.push(result)
      if (open > 0) return
      if (!refusal) return then(units)
      for (const unit of units) unit.release()
      then(refusal)
    }
    for (let at = 0; at < count; at++) this.take(account, taken)
  }

  /** Renews leases in use, returns idle ones, and retries failed settlements. */
  tick(): void {
    const { monotonic: now } = this.#effects
    for (const [key, meter] of this.#meters) {
      for (const lease of meter.leases) {
        if (lease.reporting || lease.expiresAt - now > RENEW_MS) continue
        if (now < lease.retryAt && lease.expiresAt > now) continue
        const idle = lease.used === lease.reported && lease.reserved === 0
        if (idle || lease.expiresAt <= now) this.#finish(meter, lease)
        else this.#renew(meter, lease)
      }
      if (meter.leases.length === 0 && meter.waiting.length === 0 && !meter.asking && now >= meter.refusedUntil) {
        this.#meters.delete(key)
      }
    }
    for (const [id, { lease, since }] of this.#owed) {
      if (now - since > OWED_MS) this.#owed.delete(id)
      else if (!lease.reporting && lease.reserved === 0 && now >= lease.retryAt) this.#settleFinally(lease, since)
    }
  }

  /** Returns all leases before the relay stops. Leases with reserved units follow once these are used or released. */
  close(): void {
    this.#closed = true
    for (const { lease, since } of this.#owed.values()) {
      if (!lease.reporting && lease.reserved === 0) this.#settleFinally(lease, since)
    }
    for (const meter of this.#meters.values()) for (const lease of meter.leases) this.#finish(meter, lease)
  }

  #meter(account: Account): Meter {
    const key = accountKey(account)
    let meter = this.#meters.get(key)
    if (!meter) {
      meter = { account, leases: [], asking: false, waiting: [], refusal: undefined, refusedUntil: 0 }
      this.#meters.set(key, meter)
    }
    return meter
  }

  /** A lease with a unit left that does not expire soon. */
  #usable(meter: Meter): HeldLease | undefined {
    return meter.leases.find(
      (lease) => lease.used + lease.reserved < lease.amount && lease.expiresAt - MARGIN_MS > this.#effects.monotonic,
    )
  }

  #ask(meter: Meter): void {
    if (meter.asking || (meter.refusal && this.#effects.monotonic < meter.refusedUntil)) return
    meter.asking = true
    const spent = meter.leases.filter(({ used, amount, reporting }) => used === amount && !reporting)
    let open = spent.length
    const ask = (): void => {
      const askedAt = this.#effects.monotonic
      this.#effects.lease(meter.account, (outcome) => this.#answered(meter, outcome, askedAt))
    }
    if (open === 0) ask()
    // Settle spent leases first: to the API, their units would still look outstanding.
    for (const lease of spent) {
      this.#finish(meter, lease, () => {
        open--
        if (open === 0) ask()
      })
    }
  }

  #answered(meter: Meter, outcome: Outcome<Lease>, askedAt: Time): void {
    const { monotonic: now } = this.#effects
    meter.asking = false
    meter.refusal = undefined
    if (outcome.ok && outcome.value.id !== null && outcome.value.granted > 0) {
      const { id, granted } = outcome.value
      const expiresAt = askedAt + lifeOf(outcome.value)
      meter.leases.push({
        id,
        amount: granted,
        used: 0,
        byKey: new Map(),
        reserved: 0,
        reported: 0,
        expiresAt,
        reporting: false,
        retryAt: 0,
      })
      // The answer took too long, or the month is about to end: another request would not help.
      if (expiresAt - MARGIN_MS <= now) {
        this.#refuse(meter, NO_QUOTA_NOW, now + UNAVAILABLE_MS)
      }
    } else if (outcome.ok && outcome.value.outstanding > 0) {
      // The rest is leased to other nodes, or to this one before a restart: some of it may be returned.
      this.#refuse(meter, NO_QUOTA_NOW, now + UNAVAILABLE_MS)
    } else if (outcome.ok) {
      // A new month brings a new quota. A wrong wall clock only shortens the pause.
      const restMs = Math.max(0, Date.parse(outcome.value.period_end) - this.#effects.now)
      this.#refuse(meter, { refused: 'quota_exceeded' }, now + Math.min(EXCEEDED_MS, restMs))
    } else {
      const { refused } = refusalOf(outcome.error)
      const reason = refused === 'not_found' ? 'account_unknown' : refused
      const ours = reason === 'account_suspended' || reason === 'account_unknown'
      this.#refuse(meter, ours ? { refused: reason } : NO_QUOTA_NOW, now + (ours ? EXCEEDED_MS : UNAVAILABLE_MS))
    }
    this.#serve(meter)
    if (this.#closed) this.close()
  }

  #refuse(meter: Meter, refusal: RefusalDetails, until: Time): void {
    meter.refusal = refusal
    meter.refusedUntil = until
  }

  #serve(meter: Meter): void {
    while (meter.waiting.length > 0) {
      const lease = this.#usable(meter)
      if (!lease && !meter.refusal) {
        this.#ask(meter)
        return
      }
      const result = lease ? this.#reserve(lease) : meter.refusal
      if (result) meter.waiting.shift()?.(result)
    }
  }

  #renew(meter: Meter, lease: HeldLease): void {
    const { used } = lease
    const askedAt = this.#effects.monotonic
    lease.reporting = true
    this.#effects.settle({ lease: lease.id, spent: used, final: false, keys: totals(lease) }, (outcome) => {
      lease.reporting = false
      lease.retryAt = outcome.ok ? 0 : this.#effects.monotonic + UNAVAILABLE_MS
      if (this.#owed.has(lease.id) && lease.reserved === 0) return this.#settleFinally(lease, this.#effects.monotonic)
      if (!outcome.ok) return
      const settled = outcome.value as Settled
      lease.reported = used
      lease.expiresAt = askedAt + lifeOf(settled)
      // The API has already closed the lease, so no more of it may be spent.
      if (settled.remaining < lease.amount - used) this.#finish(meter, lease)
    })
  }

  /** Takes a lease out of use and reports it to the API once none of its units are reserved. */
  #finish(meter: Meter, lease: HeldLease, then: () => void = () => {}): void {
    meter.leases = meter.leases.filter((other) => other !== lease)
    if (lease.reserved === 0 && !lease.reporting) this.#settleFinally(lease, this.#effects.monotonic, then)
    else this.#owed.set(lease.id, { lease, since: this.#effects.monotonic })
  }

  #settleFinally(lease: HeldLease, since: Time, then: () => void = () => {}): void {
    this.#owed.set(lease.id, { lease, since })
    lease.reporting = true
    this.#effects.settle({ lease: lease.id, spent: lease.used, final: true, keys: totals(lease) }, (outcome) => {
      lease.reporting = false
      lease.retryAt = this.#effects.monotonic + UNAVAILABLE_MS
      if (outcome.ok || refusalOf(outcome.error).refused === 'not_found') this.#owed.delete(lease.id)
      then()
    })
  }

  #reserve(lease: HeldLease): Unit {
    lease.reserved++
    const settle = (used: number, key?: string): void => {
      lease.reserved--
      lease.used += used
      if (key !== undefined && (lease.byKey.has(key) || lease.byKey.size < MAX_KEYS)) {
        lease.byKey.set(key, (lease.byKey.get(key) ?? 0) + used)
      }
      const owed = this.#owed.get(lease.id)
      if (owed && lease.reserved === 0 && !lease.reporting) this.#settleFinally(lease, owed.since)
    }
    return { use: (key) => settle(1, key), release: () => settle(0) }
  }
}

/** The lifetime of a lease, counted from its request; 0 if the API does not state one. */
function lifeOf({ expires_in_ms: lifeMs }: Pick<Lease, 'expires_in_ms'>): number {
  return Number.isFinite(lifeMs) ? Math.min(lifeMs, LEASE_MS) : 0
}

function left({ leases }: Meter): number {
  return leases.reduce((sum, { amount, used, reserved }) => sum + amount - used - reserved, 0)
}

function totals({ byKey }: HeldLease): Readonly<Record<string, number>> {
  return Object.fromEntries(byKey)
}
