/**
 * Quota by leases (SPEC.md, "Quota leases"): the API lends a number of messages, and only what is held is spent. A unit
 * is reserved before a message goes to the store and used when the store has charged it, so what is told to the API is
 * exactly what was accepted. All times here are of the monotonic clock.
 */
import type { Lease } from '@static/protocol'
import type { Account, Time } from '../ports.ts'
import type { BlockedAccounts } from './blocked-accounts.ts'
import type { Effects } from './effects.ts'
import type { Outcome } from './io.ts'
import { type RefusalDetails, refusalOf } from './server-messages.ts'

/** One message's worth of a lease, reserved. */
export interface Unit {
  /** The message was charged. */
  use(): void
  /** It was not: the unit goes back. */
  release(): void
}

interface HeldLease {
  readonly id: string
  readonly amount: number
  used: number
  reserved: number
  /** What the API knows of. */
  told: number
  expiresAt: Time
  telling: boolean
  /** The API was out of reach: not asked again before that time. */
  retryAt: Time
}

interface Meter {
  readonly account: Account
  leases: HeldLease[]
  asking: boolean
  waiting: Waiter[]
  /** The API's last no, and how long it is taken for an answer. */
  refusal: RefusalDetails | undefined
  refusedUntil: Time
}

type Waiter = (result: Unit | RefusalDetails) => void

/** What the API tells about a lease that was settled. */
interface Settled {
  readonly remaining: number
  readonly expires_in_ms: number
}

/** A lease this close to its end is not spent any more: clocks run at slightly different speeds. */
const MARGIN_MS = 5000
const RENEW_MS = 30_000
const MAX_WAITING = 10_000
const EXCEEDED_MS = 5000
const UNAVAILABLE_MS = 1000
const SUSPENDED: RefusalDetails = { refused: 'account_suspended' }
/** It may pass: the API is out of reach, or what is left is lent to others. */
const NO_QUOTA_NOW: RefusalDetails = {
  refused: 'unavailable',
  message: 'The relay cannot get quota for this account from the API at the moment.',
  retryAfterMs: UNAVAILABLE_MS,
}
/** A lease is good for so long after it was asked for, whatever the API says. */
const LEASE_MS = 60_000
/** How long a last settlement is tried: it gives the rest of a lease back. */
const OWED_MS = 3_600_000

/** The leases of one node. */
export class Quota {
  readonly #effects: Effects
  readonly #blocked: BlockedAccounts
  readonly #meters = new Map<string, Meter>()
  /** Last settlements that have not reached the API. */
  readonly #owed = new Map<string, { readonly lease: HeldLease; readonly since: Time }>()
  #closed = false

  constructor(effects: Effects, blocked: BlockedAccounts) {
    this.#effects = effects
    this.#blocked = blocked
  }

  /** The accounts that something was asked for lately. */
  *accounts(): Iterable<string> {
    for (const { account } of this.#meters.values()) yield account.id
  }

  /** Gives back what is leased for an account that is blocked from now on. */
  block(id: string): void {
    for (const meter of this.#meters.values()) {
      if (meter.account.id !== id) continue
      for (const lease of meter.leases) this.#finish(meter, lease)
      for (const waiter of meter.waiting.splice(0)) waiter(SUSPENDED)
    }
  }

  /** Reserves a unit: at once from a lease at hand, otherwise when the API has answered. In the order of the calls. */
  take(account: Account, then: Waiter): void {
    if (this.#blocked.has(account.id)) return then(SUSPENDED)
    const meter = this.#meter(account)
    const lease = meter.waiting.length === 0 ? this.#usable(meter) : undefined
    if (lease) {
      then(this.#reserve(lease))
      // The next lease is asked for while this one lasts.
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

  /** Reserves several, or none. */
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

  /** Renews what is in use, gives back what is not, repeats what did not get through. */
  tick(): void {
    const { monotonic: now } = this.#effects
    for (const [key, meter] of this.#meters) {
      for (const lease of meter.leases) {
        if (lease.telling || lease.expiresAt - now > RENEW_MS) continue
        if (now < lease.retryAt && lease.expiresAt > now) continue
        const idle = lease.used === lease.told && lease.reserved === 0
        if (idle || lease.expiresAt <= now) this.#finish(meter, lease)
        else this.#renew(meter, lease)
      }
      if (meter.leases.length === 0 && meter.waiting.length === 0 && !meter.asking && now >= meter.refusedUntil) {
        this.#meters.delete(key)
      }
    }
    for (const [id, { lease, since }] of this.#owed) {
      if (now - since > OWED_MS) this.#owed.delete(id)
      else if (!lease.telling && lease.reserved === 0 && now >= lease.retryAt) this.#tellLast(lease, since)
    }
  }

  /** Gives everything back, before the relay stops; what is reserved when it is used or released. */
  close(): void {
    this.#closed = true
    for (const { lease, since } of this.#owed.values()) {
      if (!lease.telling && lease.reserved === 0) this.#tellLast(lease, since)
    }
    for (const meter of this.#meters.values()) for (const lease of meter.leases) this.#finish(meter, lease)
  }

  #meter(account: Account): Meter {
    const key = `${account.mode}/${account.id}`
    let meter = this.#meters.get(key)
    if (!meter) {
      meter = { account, leases: [], asking: false, waiting: [], refusal: undefined, refusedUntil: 0 }
      this.#meters.set(key, meter)
    }
    return meter
  }

  /** A lease with a unit left. One that is spent is settled: its holder may be all that stands in the way of a new one. */
  #usable(meter: Meter): HeldLease | undefined {
    return meter.leases.find(
      (lease) => lease.used + lease.reserved < lease.amount && lease.expiresAt - MARGIN_MS > this.#effects.monotonic,
    )
  }

  #ask(meter: Meter): void {
    if (meter.asking || (meter.refusal && this.#effects.monotonic < meter.refusedUntil)) return
    meter.asking = true
    const spent = meter.leases.filter(({ used, amount, telling }) => used === amount && !telling)
    let open = spent.length
    const ask = (): void => {
      const askedAt = this.#effects.monotonic
      this.#effects.lease(meter.account, (outcome) => this.#answered(meter, outcome, askedAt))
    }
    if (open === 0) ask()
    // A spent lease that the API does not know to be spent would look as if others still held something.
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
      meter.leases.push({ id, amount: granted, used: 0, reserved: 0, told: 0, expiresAt, telling: false, retryAt: 0 })
      // It took too long, or the month is about to end: another one would fare no better.
      if (expiresAt - MARGIN_MS <= now) {
        this.#refuse(meter, NO_QUOTA_NOW, now + UNAVAILABLE_MS)
      }
    } else if (outcome.ok && outcome.value.outstanding > 0) {
      // What is left is lent to other nodes, or to an earlier life of this one: it may come back.
      this.#refuse(meter, NO_QUOTA_NOW, now + UNAVAILABLE_MS)
    } else if (outcome.ok) {
      // With a new month there is a new quota. A wrong wall clock only shortens the pause.
      const restMs = Math.max(0, Date.parse(outcome.value.period_end) - this.#effects.now)
      this.#refuse(meter, { refused: 'quota_exceeded' }, now + Math.min(EXCEEDED_MS, restMs))
    } else {
      const refusal = refusalOf(outcome.error)
      const ours = refusal.refused === 'account_suspended' || refusal.refused === 'not_found'
      this.#refuse(meter, ours ? SUSPENDED : NO_QUOTA_NOW, now + (ours ? EXCEEDED_MS : UNAVAILABLE_MS))
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
    lease.telling = true
    this.#effects.settle(lease.id, used, false, (outcome) => {
      lease.telling = false
      lease.retryAt = outcome.ok ? 0 : this.#effects.monotonic + UNAVAILABLE_MS
      if (this.#owed.has(lease.id) && lease.reserved === 0) return this.#tellLast(lease, this.#effects.monotonic)
      if (!outcome.ok) return
      const settled = outcome.value as Settled
      lease.told = used
      lease.expiresAt = askedAt + lifeOf(settled)
      // The API has closed it already: nothing of it may be spent any more.
      if (settled.remaining < lease.amount - used) this.#finish(meter, lease)
    })
  }

  /** Takes a lease out of use; the API is told when nothing of it is reserved. */
  #finish(meter: Meter, lease: HeldLease, then: () => void = () => {}): void {
    meter.leases = meter.leases.filter((other) => other !== lease)
    if (lease.reserved === 0 && !lease.telling) this.#tellLast(lease, this.#effects.monotonic, then)
    else this.#owed.set(lease.id, { lease, since: this.#effects.monotonic })
  }

  #tellLast(lease: HeldLease, since: Time, then: () => void = () => {}): void {
    this.#owed.set(lease.id, { lease, since })
    lease.telling = true
    this.#effects.settle(lease.id, lease.used, true, (outcome) => {
      lease.telling = false
      lease.retryAt = this.#effects.monotonic + UNAVAILABLE_MS
      if (outcome.ok || refusalOf(outcome.error).refused === 'not_found') this.#owed.delete(lease.id)
      then()
    })
  }

  #reserve(lease: HeldLease): Unit {
    lease.reserved++
    const settle = (used: number): void => {
      lease.reserved--
      lease.used += used
      const owed = this.#owed.get(lease.id)
      if (owed && lease.reserved === 0 && !lease.telling) this.#tellLast(lease, owed.since)
    }
    return { use: () => settle(1), release: () => settle(0) }
  }
}

/** How long a lease is good for, counted from when it was asked for; 0 if the API does not say. */
function lifeOf({ expires_in_ms: lifeMs }: Pick<Lease, 'expires_in_ms'>): number {
  return Number.isFinite(lifeMs) ? Math.min(lifeMs, LEASE_MS) : 0
}

function left({ leases }: Meter): number {
  return leases.reduce((sum, { amount, used, reserved }) => sum + amount - used - reserved, 0)
}
