/** A relay without sockets, with an API that is a few functions: for tests of the core and its driver. */
import assert from 'node:assert/strict'
import { createPrivateKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { TestContext } from 'node:test'
import {
  ALL_TRAFFIC,
  AUDIENCE,
  ISSUER,
  type Lease,
  type Mode,
  StaticError,
  TOKEN_LIFETIME_SECONDS,
} from '@static/protocol'
import { Relay } from '../../src/core/relay.ts'
import { makeCrypto } from '../../src/crypto.ts'
import { CoreRunner } from '../../src/runner/core-runner.ts'
import type { Account, QuotaSource, Store } from '../../src/ports.ts'
import { settingsFrom } from '../../src/settings.ts'
import { openMemoryStore } from '../../src/store/memory.ts'
import { makeVerifier } from '../../src/api/token-verifier.ts'
import { MemoryTransport } from './memory-transport.ts'

/** The API, as far as a relay needs it. */
export class FakeApi implements QuotaSource {
  readonly #key: KeyObject
  readonly #publicKey: KeyObject
  readonly #now: () => number
  readonly #leases = new Map<string, { account: string; amount: number; spent: number }>()
  /** Messages left, by account and mode. */
  readonly left: Map<string, number> = new Map()
  readonly spent: Map<string, number> = new Map()
  reachable = true
  asked = 0
  /** Leases are granted when this is over. */
  gate: Promise<void> | undefined
  /** What other relays hold. */
  outstanding = 0

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

  /** A token for an account. */
  token(account: string, options: { mode?: Mode; cnf?: string; lifetime?: number } = {}): string {
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
    }
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
    const signed = `${part({ alg: 'EdDSA', kid: 'k1' })}.${part(claims)}`
    return `${signed}.${sign(null, Buffer.from(signed), this.#key).toString('base64url')}`
  }

  /** How many leases are not settled. */
  get lent(): number {
    return this.#leases.size
  }

  async lease({ id, mode }: Account, wanted: number): Promise<Lease> {
    this.asked++
    await this.gate
    if (!this.reachable) throw StaticError.of('unavailable')
    const key = `${id}/${mode}`
    const left = this.left.get(key) ?? 1_000_000
    const granted = Math.min(left, wanted)
    this.left.set(key, left - granted)
    const lease = `lease-${this.asked}`
    if (granted > 0) this.#leases.set(lease, { account: key, amount: granted, spent: 0 })
    return {
      id: granted > 0 ? lease : null,
      granted,
      outstanding: this.outstanding,
      expires_at: new Date(this.#now() + 60_000).toISOString(),
      period_end: new Date(this.#now() + 86_400_000).toISOString(),
    }
  }

  settle(id: string, spent: number, final: boolean): Promise<unknown> {
    const lease = this.#leases.get(id)
    if (!this.reachable) return Promise.reject(StaticError.of('unavailable'))
    if (!lease) return Promise.reject(StaticError.of('not_found'))
    this.spent.set(lease.account, (this.spent.get(lease.account) ?? 0) + spent - lease.spent)
    lease.spent = spent
    if (final) this.#leases.delete(id)
    if (final) this.left.set(lease.account, (this.left.get(lease.account) ?? 0) + lease.amount - spent)
    const remaining = final ? 0 : lease.amount - spent
    return Promise.resolve({ remaining, expires_at: new Date(this.#now() + 60_000).toISOString() })
  }
}

/** A relay in memory. */
export interface World {
  readonly api: FakeApi
  readonly driver: CoreRunner
  readonly store: Store
  readonly transport: MemoryTransport
  readonly errors: unknown[]
  readonly now: () => number
  /** Lets time pass and does what is due, in a world whose clock stands still. */
  advance(ms: number): Promise<void>
  close(): Promise<void>
}

/** What a world is made with. */
export interface WorldOptions {
  readonly settings?: object
  readonly guests?: boolean
  readonly now?: () => number
}

/** A world whose clock stands still until the test lets time pass; it must end without an error of ours. */
export async function openWorld(t: TestContext, options: WorldOptions = {}): Promise<World> {
  let time = START
  const world = await startWorld({ ...options, now: () => time })
  world.driver.stop()
  t.after(async () => {
    await world.close()
    assert.deepEqual(world.errors, [])
  })
  const advance = async (ms: number): Promise<void> => {
    time += ms
    world.driver.tick()
    await quiet()
  }
  return { ...world, advance }
}

/** Waits until nothing is left to do that does not wait for something outside. */
export async function quiet(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}

const START = Date.UTC(2027, 0, 15, 12)

/** Starts one. */
export async function startWorld(options: WorldOptions = {}): Promise<World> {
  const settings = settingsFrom(options.settings ?? {})
  const now = options.now ?? Date.now
  const api = new FakeApi(now)
  const errors: unknown[] = []
  let driver: CoreRunner | undefined
  const store = await openMemoryStore({ retention: settings.retention }, (event) => driver?.event(event))
  const identity = { name: 'relay.test', guests: options.guests ?? true, traffic: ALL_TRAFFIC }
  const relay = new Relay({ identity, deployment: store.deployment, settings, crypto: await makeCrypto() })
  driver = new CoreRunner({
    relay,
    store,
    settings,
    verify: makeVerifier(() => api.keys(), now),
    quota: api,
    now,
    onError: (error) => errors.push(error),
    onSend: () => {},
  })
  const running = driver
  const transport = new MemoryTransport((make) => running.streams(make))
  return {
    api,
    driver,
    store,
    transport,
    errors,
    now,
    advance: () => Promise.reject(new Error('This clock goes by itself.')),
    close: async () => {
      await running.drain()
      running.stop()
      await store.close()
    },
  }
}
