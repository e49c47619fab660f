/**
 * A relay and its surroundings in which everything takes its time: bytes on streams, operations of the store, answers of
 * the API. What happens next is drawn from a seed, so a run can be had again.
 */
import { ALL_TRAFFIC, type Lease, StaticError, type TokenClaims } from '@static/protocol'
import { Relay } from '../../src/core/relay.ts'
import { makeCrypto } from '../../src/crypto.ts'
import { CoreRunner } from '../../src/runner/core-runner.ts'
import type {
  Entry,
  Peer,
  StoreResult,
  Store,
  StoreEvent,
  StreamHandler,
  StreamId,
  Transport,
} from '../../src/ports.ts'
import { settingsFrom } from '../../src/settings.ts'
import { openMemoryStore } from '@static/testkit/store/relay-memory'
import type { WireHandlers, WireStream } from '@static/testkit/agent'
import { randomNumbers } from '@static/testkit/random'

/** The world of one run. */
export class SimNetwork implements Transport {
  readonly random: () => number
  /** What the store has accepted, by index, and what it was told by whom. */
  readonly truth: Entry[] = []
  readonly errors: unknown[] = []
  now: number = Date.UTC(2027, 0, 15, 12)
  /** Whether streams break and the store fails. */
  faults = true
  charged = 0
  lent = 0
  readonly #lanes = new Map<string, (() => void)[]>()
  readonly #streams = new Map<StreamId, WireHandlers>()
  readonly #leases = new Map<string, { granted: number; spent: number }>()
  readonly #store: Store
  #driver: CoreRunner | undefined
  #handler: StreamHandler | undefined
  #leaseCount = 0

  private constructor(seed: number, store: (listener: (event: StoreEvent) => void) => Store) {
    this.random = randomNumbers(seed)
    this.#store = store((event) => this.#happened(event))
  }

  static async make(seed: number, overrides: object): Promise<SimNetwork> {
    const settings = settingsFrom(overrides)
    const listeners: ((event: StoreEvent) => void)[] = []
    const store = await openMemoryStore({ retention: settings.retention }, (event) => {
      for (const listener of listeners) listener(event)
    })
    const network = new SimNetwork(seed, (listener) => {
      listeners.push(listener)
      return store
    })
    const crypto = { ...makeCrypto(), random: (length: number) => network.bytes(length) }
    const identity = { name: 'relay.test', guests: true, traffic: ALL_TRAFFIC, grpcPort: () => 5001 }
    const driver = new CoreRunner({
      relay: new Relay({ identity, deployment: store.deployment, settings, crypto }),
      store: network.#slowStore(),
      settings,
      verify: (jwt) => network.#later('verify', () => claims(jwt, network.now)),
      quota: {
        lease: (_, wanted) => network.#later('lease', () => network.#lend(Math.min(wanted, 5 + network.below(20)))),
        settle: (id, spent, final) => network.#later('settle', () => network.#settle(id, spent, final)),
        blocked: () => Promise.resolve([]),
      },
      now: () => network.now,
      monotonic: () => network.now,
      onError: (error) => network.errors.push(error),
      // It fails on purpose.
      onStoreError: (error) => {
        if (!(error instanceof StaticError && error.code === 'unavailable')) network.errors.push(error)
      },
      onExcess: () => {},
      onSend: () => {},
      onSession: () => {},
    })
    driver.stop()
    network.#driver = driver
    network.#handler = driver.streams(() => network)
    return network
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit)
  }

  chance(share: number): boolean {
    return this.random() < share
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.below(256))
  }

  get idle(): boolean {
    return this.#lanes.size === 0
  }

  /** A few things happen, somewhere. */
  async step(): Promise<void> {
    this.now += this.below(20)
    if (this.chance(0.05)) this.#driver?.tick()
    if (this.chance(0.01)) await this.#store.run('sweep', { now: this.now })
    for (let things = 1 + this.below(5); things > 0; things--) {
      const names = [...this.#lanes.keys()]
      const name = names[this.below(names.length)] ?? ''
      const lane = this.#lanes.get(name) ?? []
      lane.shift()?.()
      if (lane.length === 0) this.#lanes.delete(name)
    }
    // Everything that the step set off is over by then: there is no I/O.
    await new Promise((resolve) => setImmediate(resolve))
  }

  /** Stops the relay; everything that is under way is finished first. */
  async stop(): Promise<void> {
    const drained = this.#driver?.drain()
    for (let steps = 0; steps < 10_000 && !this.idle; steps++) await this.step()
    await drained
    await this.#store.close()
  }

  // ---- Streams ----

  open(peer: Peer, handlers: WireHandlers): WireStream & { break(): void } {
    const id = this.#handler?.opened(peer)
    if (id === undefined) throw new Error('The stream was turned away.')
    this.#streams.set(id, handlers)
    return {
      write: (bytes) => {
        if (this.#streams.has(id)) this.#carry(`up ${id}`, bytes, (chunk) => this.#handler?.received(id, chunk))
      },
      end: () => this.#break(id),
      break: () => this.#break(id),
    }
  }

  write(streams: readonly StreamId[], cells: Uint8Array): void {
    for (const id of streams) {
      if (this.#streams.has(id)) this.#carry(`down ${id}`, cells, (chunk) => this.#streams.get(id)?.data(chunk))
    }
  }

  /** Agents of these tests have no clock. */
  pace(): void {}

  end(id: StreamId): void {
    if (!this.#streams.has(id)) return
    this.#post(`down ${id}`, () => {
      const handlers = this.#streams.get(id)
      this.#streams.delete(id)
      this.#lanes.delete(`up ${id}`)
      handlers?.closed()
    })
  }

  /** What is under way is lost; the relay hears of it some time later. */
  #break(id: StreamId): void {
    const handlers = this.#streams.get(id)
    if (!handlers) return
    this.#streams.delete(id)
    this.#lanes.delete(`up ${id}`)
    this.#lanes.delete(`down ${id}`)
    this.#post(`closed ${id}`, () => this.#handler?.closed(id))
    handlers.closed()
  }

  /** In pieces, which need not end where cells do. */
  #carry(lane: string, bytes: Uint8Array, take: (chunk: Uint8Array) => void): void {
    for (let at = 0; at < bytes.length;) {
      const length = this.chance(0.5) ? bytes.length : 1 + this.below(2048)
      const chunk = bytes.slice(at, at + length)
      this.#post(lane, () => take(chunk))
      at += length
    }
  }

  #post(lane: string, task: () => void): void {
    const tasks = this.#lanes.get(lane)
    if (tasks) tasks.push(task)
    else this.#lanes.set(lane, [task])
  }

  // ---- Store and API ----

  #happened(event: StoreEvent): void {
    if (event.type === 'appended') this.truth[event.entry.index] = event.entry
    this.#driver?.event(event)
  }

  #slowStore(): Store {
    const inner = this.#store
    return {
      deployment: inner.deployment,
      run: (name, request) => {
        const { promise, resolve, reject } = Promise.withResolvers<StoreResult<typeof name>>()
        this.#post('store', () => {
          if (this.faults && this.chance(0.01)) return reject(StaticError.of('unavailable'))
          inner.run(name, request).then((result) => this.#post('results', () => resolve(result)), reject)
        })
        return promise
      },
      healthy: () => true,
      durability: () => 'memory',
      close: () => inner.close(),
    }
  }

  #later<Value>(lane: string, make: () => Value): Promise<Value> {
    const { promise, resolve, reject } = Promise.withResolvers<Value>()
    this.#post(lane, () => {
      if (this.faults && lane !== 'verify' && this.chance(0.1)) reject(StaticError.of('unavailable'))
      else resolve(make())
    })
    return promise
  }

  #lend(granted: number): Lease {
    const id = `lease-${++this.#leaseCount}`
    this.#leases.set(id, { granted, spent: 0 })
    this.lent++
    const expires_at = new Date(this.now + 60_000).toISOString()
    return { id, granted, outstanding: 0, expires_at, expires_in_ms: 60_000, period_end: expires_at }
  }

  #settle(id: string, spent: number, final: boolean): unknown {
    const lease = this.#leases.get(id)
    if (!lease) throw StaticError.of('not_found')
    if (spent > lease.granted || spent < lease.spent)
      throw new Error('More is spent than was lent, or less than before.')
    this.charged += spent - lease.spent
    lease.spent = spent
    if (final) this.#leases.delete(id)
    if (final) this.lent--
    return { remaining: final ? 0 : lease.granted - spent, expires_in_ms: 60_000 }
  }
}

/** Tokens here are the names of accounts. */
function claims(jwt: string, now: number): TokenClaims {
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
