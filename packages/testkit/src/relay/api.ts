/** A fake API in a few functions: signs tokens, and grants quota that a test sets. */
import { createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import {
  AUDIENCE,
  type ChannelDeletion,
  ISSUER,
  type Lease,
  type Mode,
  StaticError,
  TOKEN_LIFETIME_SECONDS,
} from '@static/protocol'
import type { LocalApi } from '@static/relay'

type Account = Parameters<LocalApi['lease']>[0]

/** The parts of the API that a relay needs. */
export class FakeApi implements LocalApi {
  readonly #key: KeyObject
  readonly #publicKey: KeyObject
  readonly #now: () => number
  readonly #leases = new Map<string, { account: string; amount: number; spent: number; keys: Map<string, number> }>()
  /** Messages left, by account and mode. */
  readonly left: Map<string, number> = new Map()
  readonly spent: Map<string, number> = new Map()
  /** Messages spent, by the id of the key. */
  readonly spentByKey: Map<string, number> = new Map()
  reachable = true
  asked = 0
  /** Leases are granted once this has resolved. */
  gate: Promise<void> | undefined
  /** Quota leased by other relays. */
  outstanding = 0
  /** Accounts that the operator has suspended. */
  readonly suspended: Set<string> = new Set()
  /** Accounts that the API does not know. */
  readonly unknown: Set<string> = new Set()
  /** How many accounts each question about suspensions named. */
  readonly checks: number[] = []

  constructor(now: () => number) {
    const pair = generateKeyPairSync('ed25519')
    this.#key = createPrivateKey(pair.privateKey.export({ format: 'pem', type: 'pkcs8' }))
    this.#publicKey = pair.publicKey
    this.#now = now
  }

  keys(): Promise<{ keys: object[] }> {
    if (!this.reachable) return Promise.reject(new Error('out of reach'))
    return Promise.resolve({ keys: [{ ...this.#publicKey.export({ format: 'jwk' }), kid: 'k1', alg: 'EdDSA' }] })
  }

  /** A token for an account, with further claims. */
  token(account: string, options: { mode?: Mode; cnf?: string; lifetime?: number; claims?: object } = {}): string {
    const iat = Math.floor(this.#now() / 1000)
    const { mode = 'live', cnf, lifetime = TOKEN_LIFETIME_SECONDS } = options
    const claims = {
      sub: account,
      plan: 'free',
      iss: ISSUER,
      aud: AUDIENCE,
      iat,
      exp: iat + lifetime,
      jti: String(Math.random()),
      mode,
      ...(cnf === undefined ? {} : { cnf }),
      ...options.claims,
    }
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
    const signed = `${part({ alg: 'EdDSA', kid: 'k1' })}.${part(claims)}`
    return `${signed}.${sign(null, Buffer.from(signed), this.#key).toString('base64url')}`
  }

  /** The number of unsettled leases. */
  get lent(): number {
    return this.#leases.size
  }

  async lease({ id, mode }: Account, wanted: number): Promise<Lease> {
    this.asked++
    await this.gate
    if (!this.reachable) throw StaticError.of('unavailable')
    if (this.suspended.has(id)) throw StaticError.of('account_suspended')
    if (this.unknown.has(id)) throw StaticError.of('not_found')
    const key = `${id}/${mode}`
    const left = this.left.get(key) ?? 1_000_000
    const granted = Math.min(left, wanted)
    this.left.set(key, left - granted)
    const lease = `lease-${this.asked}`
    if (granted > 0) this.#leases.set(lease, { account: key, amount: granted, spent: 0, keys: new Map() })
    return {
      id: granted > 0 ? lease : null,
      granted,
      outstanding: this.outstanding,
      expires_at: new Date(this.#now() + 60_000).toISOString(),
      expires_in_ms: 60_000,
      period_end: new Date(this.#now() + 86_400_000).toISOString(),
    }
  }

  settle(id: string, spent: number, final: boolean, keys: Readonly<Record<string, number>>): Promise<unknown> {
    const lease = this.#leases.get(id)
    if (!this.reachable) return Promise.reject(StaticError.of('unavailable'))
    if (!lease) return Promise.reject(StaticError.of('not_found'))
    this.spent.set(lease.account, (this.spent.get(lease.account) ?? 0) + spent - lease.spent)
    lease.spent = spent
    for (const [key, total] of Object.entries(keys)) {
      const before = lease.keys.get(key) ?? 0
      this.spentByKey.set(key, (this.spentByKey.get(key) ?? 0) + total - before)
      lease.keys.set(key, total)
    }
    if (final) this.#leases.delete(id)
    if (final) this.left.set(lease.account, (this.left.get(lease.account) ?? 0) + lease.amount - spent)
    const remaining = final ? 0 : lease.amount - spent
    return Promise.resolve({ remaining, expires_in_ms: 60_000 })
  }

  deletions(): Promise<readonly ChannelDeletion[]> {
    return Promise.resolve([])
  }

  reportDeletion(): Promise<void> {
    return Promise.resolve()
  }

  watched(): Promise<readonly string[]> {
    return Promise.resolve([])
  }

  report(): Promise<void> {
    return Promise.resolve()
  }

  blocked(accounts: readonly string[]): Promise<{ suspended: readonly string[]; unknown: readonly string[] }> {
    this.checks.push(accounts.length)
    if (!this.reachable) return Promise.reject(StaticError.of('unavailable'))
    const those = (blocked: ReadonlySet<string>): string[] => accounts.filter((account) => blocked.has(account))
    return Promise.resolve({ suspended: those(this.suspended), unknown: those(this.unknown) })
  }
}
