/** One relay node of a simulated world: core, runner and its end of the bus; and the streams to it. */
import { ALL_TRAFFIC, StaticError, toHex } from '@static/protocol'
import type { WireHandlers } from '@static/testkit/agent'
import { NodeBus } from '../../src/bus/node-bus.ts'
import { Relay } from '../../src/core/relay.ts'
import { makeCrypto } from '../../src/crypto.ts'
import { CoreRunner } from '../../src/runner/core-runner.ts'
import { OutcomeUnknown, type Store, type StoreOperation, type StreamHandler, type StreamId } from '../../src/ports.ts'
import type { Settings } from '../../src/settings.ts'
import { simClaims } from './sim-api.ts'
import type { SimWorld } from './sim-world.ts'

/** Operations after which the store may not know whether they were done. */
const WRITES = new Set<StoreOperation>(['append', 'commit', 'create', 'delete', 'leave', 'reject', 'liftBar', 'ack'])
/** How often a call fails before it is done, and how often it is done and nobody knows. */
const FAILURES = { before: 0.01, after: 0.01 } as const

/** A node from its start to its end. */
export class SimNode {
  readonly name: string
  readonly streams: Map<StreamId, WireHandlers> = new Map()
  readonly driver: CoreRunner
  readonly handler: StreamHandler
  isAlive = true
  /** Whether its connection to the store is gone. */
  isCutOff = false
  readonly #net: SimWorld
  readonly #bus: NodeBus | undefined

  constructor(net: SimWorld, name: string, settings: Settings, hasOthers: boolean) {
    this.#net = net
    this.name = name
    const { deployment } = net.ledger
    const now = (): number => net.now
    const made: { driver?: CoreRunner } = {}
    this.#bus = hasOthers
      ? new NodeBus(
          {
            relayId: deployment.relayId,
            key: deployment.busKey ?? new Uint8Array(),
            node: toHex(net.bytes(16)),
            wire: net.bus.wire,
            now,
            monotonic: now,
          },
          { news: (news, from) => made.driver?.news(news, from), doubt: () => made.driver?.doubt() },
        )
      : undefined
    const bus = this.#bus
    const cluster = bus && { node: bus.node, clockOffsetMs: () => 0, bus: () => bus.state, nodes: () => net.nodeCount }
    const crypto = { ...makeCrypto(), random: (length: number) => net.bytes(length) }
    const identity = { name: 'relay.test', guests: true, traffic: ALL_TRAFFIC, grpcPort: () => 5001 }
    this.driver = new CoreRunner({
      relay: new Relay({ identity, deployment, settings, crypto, cluster }),
      bus,
      store: this.#store(),
      settings,
      verify: (jwt) => this.#later('verify', () => simClaims(jwt, net.now)),
      quota: {
        lease: (_, wanted) =>
          this.#later('lease', () => net.api.lend(name, Math.min(wanted, 5 + net.below(20)), net.now)),
        settle: (id, spent, final) => this.#later('settle', () => net.api.settle(id, spent, final)),
        blocked: () => Promise.resolve({ suspended: [], unknown: [] }),
      },
      now,
      monotonic: now,
      nextTurn: (act) => act(),
      onError: (error) => net.errors.push(error),
      // It fails on purpose.
      onStoreError: (error) => {
        if (!(error instanceof StaticError && error.code === 'unavailable')) net.errors.push(error)
      },
      onExcess: () => {},
      onSend: () => {},
      onSession: () => {},
    })
    this.driver.stop()
    made.driver = this.driver
    const transport = {
      write: (ids: readonly StreamId[], cells: Uint8Array) => {
        for (const id of ids) {
          const take = (chunk: Uint8Array): void => this.streams.get(id)?.data(chunk)
          if (this.streams.has(id)) net.carry(`down ${name} ${id}`, cells, take)
        }
      },
      // Agents of these tests have no clock.
      pace: () => {},
      end: (id: StreamId) => this.#ended(id),
      stop: () => Promise.resolve(),
    }
    this.handler = this.driver.streams(() => transport)
  }

  /** What is under way is lost; the relay hears of it some time later. */
  break(id: StreamId): void {
    const handlers = this.streams.get(id)
    if (!handlers) return
    this.streams.delete(id)
    this.#net.forget(`up ${this.name} ${id}`, `down ${this.name} ${id}`)
    this.#net.post(`closed ${this.name} ${id}`, () => this.handler.closed(id))
    handlers.closed()
  }

  /** The process is gone, in the middle of whatever it was doing. */
  async die(): Promise<void> {
    this.isAlive = false
    this.#net.api.died(this.name)
    for (const id of this.streams.keys()) this.break(id)
    await this.#bus?.close()
  }

  #ended(id: StreamId): void {
    if (!this.streams.has(id)) return
    this.#net.post(`down ${this.name} ${id}`, () => {
      const handlers = this.streams.get(id)
      this.streams.delete(id)
      this.#net.forget(`up ${this.name} ${id}`)
      handlers?.closed()
    })
  }

  /** The store as this node has it: calls and answers take their time, in order; some of them get lost. */
  #store(): Store {
    const net = this.#net
    const run: Store['run'] = (name, request) => {
      const { promise, resolve, reject } = Promise.withResolvers<never>()
      const answer = (act: () => void): void => net.post(`results ${this.name}`, () => this.isAlive && act())
      net.post(`store ${this.name}`, () => {
        // What it had sent before it died may be done all the same.
        if (!this.isAlive) return void (net.chance(0.5) && net.execute(name, request))
        if (this.isCutOff || (net.faults && net.chance(FAILURES.before))) {
          return answer(() => reject(StaticError.of('unavailable')))
        }
        const { result, events } = net.execute(name, request)
        if (net.faults && net.nodeCount > 1 && WRITES.has(name) && net.chance(FAILURES.after)) {
          net.unknown++
          return answer(() => reject(new OutcomeUnknown(new Error('the connection was lost'))))
        }
        answer(() => {
          for (const event of events) this.driver.event(event)
          resolve(result as never)
        })
      })
      return promise
    }
    return {
      deployment: net.ledger.deployment,
      run,
      healthy: () => !this.isCutOff,
      durability: () => 'memory',
      close: () => Promise.resolve(),
    }
  }

  #later<Value>(lane: string, make: () => Value): Promise<Value> {
    const net = this.#net
    const { promise, resolve, reject } = Promise.withResolvers<Value>()
    net.post(lane, () => {
      if (!this.isAlive) return
      if (net.faults && lane !== 'verify' && net.chance(0.1)) reject(StaticError.of('unavailable'))
      else resolve(make())
    })
    return promise
  }
}
