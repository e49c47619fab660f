/** An API that lends quota and takes its time, for simulated relay nodes. */
import { type Lease, StaticError, type TokenClaims } from '@static/protocol'

const LEASE_MS = 60_000

interface SimLease {
  readonly node: string
  readonly granted: number
  spent: number
}

/** What nodes have borrowed, and what of it they have spent. */
export class SimApi {
  charged = 0
  /** What nodes had borrowed when they died: the API counts it as spent. */
  lost = 0
  readonly #leases = new Map<string, SimLease>()
  #count = 0

  /** Leases that are not settled. */
  get lent(): number {
    return this.#leases.size
  }

  lend(node: string, granted: number, now: number): Lease {
    const id = `lease-${++this.#count}`
    this.#leases.set(id, { node, granted, spent: 0 })
    const expires_at = new Date(now + LEASE_MS).toISOString()
    return { id, granted, outstanding: 0, expires_at, expires_in_ms: LEASE_MS, period_end: expires_at }
  }

  settle(id: string, spent: number, final: boolean): unknown {
    const lease = this.#leases.get(id)
    if (!lease) throw StaticError.of('not_found')
    if (spent > lease.granted || spent < lease.spent)
      throw new Error('More is spent than was lent, or less than before.')
    this.charged += spent - lease.spent
    lease.spent = spent
    if (final) this.#leases.delete(id)
    return { remaining: final ? 0 : lease.granted - spent, expires_in_ms: LEASE_MS }
  }

  /** A node is gone and will not settle. */
  died(node: string): void {
    for (const [id, lease] of this.#leases) {
      if (lease.node !== node) continue
      this.lost += lease.granted - lease.spent
      this.#leases.delete(id)
    }
  }
}

/** Tokens here are the names of accounts. */
export function simClaims(jwt: string, now: number): TokenClaims {
  const iat = Math.floor(now / 1000)
  return {
    sub: jwt,
    plan: 'free',
    iss: 'static-api',
    aud: 'static-relay',
    iat,
    exp: iat + 3600,
    jti: jwt,
    mode: 'live',
  }
}
