/**
 * A relay of one or several nodes and its surroundings, in which everything takes its time: bytes on streams, operations
 * of the store, answers of the API, messages between nodes. What happens next is drawn from a seed, so a run can be had
 * again.
 */
import { ALL_TRAFFIC, type Lease, StaticError, toHex, type TokenClaims } from '@static/protocol'
import { NodeBus } from '../../src/bus/node-bus.ts'
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
import { type Settings, settingsFrom } from '../../src/settings.ts'
import { MemoryBus } from '@static/testkit/bus/memory'
import { openMemoryStores } from '@static/testkit/store/relay-memory'
import type { WireHandlers, WireStream } from '@static/testkit/agent'
import { randomNumbers } from '@static/testkit/random'

/** One node, and the streams to it. */
interface SimNode {
  readonly name: string
  readonly driver: CoreRunner
  readonly store: Store
  readonly streams: Map<StreamId, WireHandlers>
  readonly handler: StreamHandler
}

/** The world of one run. */
export class SimNetwork {
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
  readonly #nodes: SimNode[] = []
  readonly #leases = new Map<string, { granted: number; spent: number }>()
  #leaseCount = 0

  /** The messages between nodes. Each goes its own way, so they overtake each other. */
  readonly bus: MemoryBus

  private constructor(seed: number) {
    this.random = randomNumbers(seed)
    this.bus = new MemoryBus({
      random: this.random,
      post: (deliver) => this.#post(`bus ${this.below(1000)}`, deliver),
      maxBytes: 2000,
    })
  }

  static make(seed: number, overrides: object, nodes = 1): SimNetwork {
    const settings = settingsFrom(overrides)
    const network = new SimNetwork(seed)
    const listener = (at: number) => (event: StoreEvent) => network.#happened(event, at)
    const more = Array.from({ length: nodes - 1 }, (_, at) => listener(at + 1))
    const stores = openMemoryStores({ retention: settings.retention }, [listener(0), ...more])
    for (const store of stores) network.#nodes.push(network.#node(store, settings, nodes > 1))
    return network
  }

  #node(store: Store, settings: Settings, hasOthers: boolean): SimNode {
    const { deployment } = store
    const streams = new Map<StreamId, WireHandlers>()
    const made: { driver?: CoreRunner } = {}
    const key = deployment.busKey ?? new Uint8Array()
    const bus =
      hasOthers &&
      new NodeBus(
        {
          relayId: deployment.relayId,
          key,
          node: toHex(this.bytes(16)),
          wire: this.bus.wire,
          now: () => this.now,
          monotonic: () => this.now,
        },
        { news: (news, from) => made.driver?.news(news, from), doubt: () => made.driver?.doubt() },
      )
    const cluster = bus && { node: bus.node, clockOffsetMs: () => 0, bus: () => bus.state, nodes: () => 1 }
    const crypto = { ...makeCrypto(), random: (length: number) => this.bytes(length) }
    const identity = { name: 'relay.test', guests: true, traffic: ALL_TRAFFIC, grpcPort: () => 5001 }
    const driver = new CoreRunner({
      relay: new Relay({ identity, deployment, settings, crypto, cluster: cluster || undefined }),
      bus: bus || undefined,
      store: this.#slowStore(store),
      settings,
      verify: (jwt) => this.#later('verify', () => claims(jwt, this.now)),
      quota: {
        lease: (_, wanted) => this.#later('lease', () => this.#lend(Math.min(wanted, 5 + this.below(20)))),
        settle: (id, spent, final) => this.#later('settle', () => this.#settle(id, spent, final)),
        blocked: () => Promise.resolve([]),
      },
      now: () => this.now,
      monotonic: () => this.now,
      onError: (error) => this.errors.push(error),
      // It fails on purpose.
      onStoreError: (error) => {
        if (!(error instanceof StaticError && error.code === 'unavailable')) this.errors.push(error)
      },
      onExcess: () => {},
      onSend: () => {},
      onSession: () => {},
    })
    driver.stop()
    made.driver = driver
    const name = `${this.#nodes.length}`
    const transport: Transport = {
      write: (ids, cells) => {
        for (const id of ids) {
          if (streams.has(id)) this.#carry(`down ${name} ${id}`, cells, (chunk) => streams.get(id)?.data(chunk))
        }
      },
      // Agents of these tests have no clock.
      pace: () => {},
      end: (id) => this.#endStream(node, id),
      stop: () => Promise.resolve(),
    }
    const node: SimNode = { name, driver, store, streams, handler: driver.streams(() => transport) }
    return node
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
    this.now += this.below(this.#nodes.length > 1 ? 100 : 20)
    // Ticks of a cluster come with time: its nodes wait for each other.
    for (const { driver, store } of this.#nodes) {
      if (this.chance(0.05)) driver.tick()
      if (this.chance(0.01)) await store.run('sweep', { now: this.now })
    }
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
    const drained = Promise.all(this.#nodes.map(({ driver }) => driver.drain()))
    for (let steps = 0; steps < 10_000 && !this.idle; steps++) await this.step()
    await drained
    for (const { store } of this.#nodes) await store.close()
  }

  // ---- Streams ----

  open(peer: Peer, handlers: WireHandlers): WireStream & { break(): void } {
    const node = this.#nodes[this.#nodes.length > 1 ? this.below(this.#nodes.length) : 0]
    const id = node?.handler.opened(peer)
    if (id === undefined || !node) throw new Error('The stream was turned away.')
    const { streams, handler, name } = node
    streams.set(id, handlers)
    return {
      write: (bytes) => {
        if (streams.has(id)) this.#carry(`up ${name} ${id}`, bytes, (chunk) => handler.received(id, chunk))
      },
      end: () => this.#break(node, id),
      break: () => this.#break(node, id),
    }
  }

  #endStream({ name, streams }: SimNode, id: StreamId): void {
    if (!streams.has(id)) return
    this.#post(`down ${name} ${id}`, () => {
      const handlers = streams.get(id)
      streams.delete(id)
      this.#lanes.delete(`up ${name} ${id}`)
      handlers?.closed()
    })
  }

  /** What is under way is lost; the relay hears of it some time later. */
  #break({ name, streams, handler }: SimNode, id: StreamId): void {
    const handlers = streams.get(id)
    if (!handlers) return
    streams.delete(id)
    this.#lanes.delete(`up ${name} ${id}`)
    this.#lanes.delete(`down ${name} ${id}`)
    this.#post(`closed ${name} ${id}`, () => handler.closed(id))
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

  #happened(event: StoreEvent, at: number): void {
    if (event.type === 'appended') this.truth[event.entry.index] = event.entry
    this.#nodes[at]?.driver.event(event)
  }

  #slowStore(inner: Store): Store {
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
