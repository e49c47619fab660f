/** A relay without sockets, with an API that is a few functions: for tests of the core and its driver. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { ALL_TRAFFIC } from '@static/protocol'
import { FakeApi } from '@static/testkit/relay/api'
import type { CatchUpCounts } from '../../src/core/cluster/cluster.ts'
import { Relay } from '../../src/core/relay.ts'
import { makeCrypto } from '../../src/crypto.ts'
import { CoreRunner } from '../../src/runner/core-runner.ts'
import { type Bus, type FilesPlace, OutcomeUnknown, type Store } from '../../src/ports.ts'
import { settingsFrom } from '../../src/settings.ts'
import { openMemoryStore } from '@static/testkit/store/relay-memory'
import { makeVerifier } from '../../src/api/token-verifier.ts'
import { MemoryTransport } from './memory-transport.ts'

/** A relay in memory. */
export interface MemoryRelay {
  readonly api: FakeApi
  readonly driver: CoreRunner
  readonly store: Store
  readonly transport: MemoryTransport
  readonly errors: unknown[]
  /** What it has asked the store because it may have missed messages of other nodes. */
  readonly catchUps: () => CatchUpCounts | undefined
  readonly now: () => number
  /** Lets time pass and does what is due, in a world whose clock stands still. */
  advance(ms: number): Promise<void>
  /** Sets the relay's wall clock so far ahead of the API's; no time passes. */
  skew(ms: number): void
  close(): Promise<void>
}

/** What a world is made with. */
export interface MemoryRelayOptions {
  readonly settings?: object
  readonly guests?: boolean
  readonly now?: () => number
  /** Whether there is a place for files. Default: one with room. */
  readonly filesPlace?: () => FilesPlace
  /** Opens its store and bus, for one node of several. */
  readonly node?: MemoryNode
}

/** What a node shares with others. */
export interface MemoryNode {
  readonly api: FakeApi
  readonly store: Store
  readonly bus: Bus
  /** Set once there is one. */
  readonly made: { driver?: CoreRunner }
}

/** A world whose clock stands still until the test lets time pass; it must end without an error of ours. */
export async function openMemoryRelay(t: TestContext, options: MemoryRelayOptions = {}): Promise<MemoryRelay> {
  let time = START
  const world = await startMemoryRelay({ ...options, now: () => time })
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
export async function startMemoryRelay(options: MemoryRelayOptions = {}): Promise<MemoryRelay> {
  const settings = settingsFrom(options.settings ?? {})
  const now = options.now ?? Date.now
  const { node } = options
  const api = node?.api ?? new FakeApi(now)
  const errors: unknown[] = []
  let driver: CoreRunner | undefined
  let skewMs = 0
  const store =
    node?.store ?? (await openMemoryStore({ retention: settings.retention }, (event) => driver?.event(event)))
  const bus = node?.bus
  const cluster = bus && {
    node: bus.node,
    clockOffsetMs: () => store.clockOffsetMs?.() ?? 0,
    bus: () => bus.state,
    nodes: () => store.nodes?.() ?? 1,
  }
  const identity = { name: 'relay.test', guests: options.guests ?? true, traffic: ALL_TRAFFIC, grpcPort: () => 5001 }
  const { filesPlace = () => 'open' } = options
  const relay = new Relay({
    identity,
    deployment: store.deployment,
    settings,
    crypto: makeCrypto(),
    cluster,
    filesPlace,
  })
  driver = new CoreRunner({
    relay,
    store,
    bus,
    settings,
    verify: makeVerifier(() => api.keys(), now),
    quota: api,
    now: () => now() + skewMs,
    monotonic: now,
    nextTurn: (act) => act(),
    onError: (error) => errors.push(error),
    onStoreError: (error) => {
      if (!(error instanceof OutcomeUnknown)) errors.push(error)
    },
    onExcess: () => {},
    onSend: () => {},
    onSession: () => {},
  })
  const running = driver
  if (node) node.made.driver = driver
  const transport = new MemoryTransport((make) => running.streams(make))
  return {
    api,
    driver,
    store,
    transport,
    errors,
    catchUps: () => relay.catchUps,
    now,
    skew: (ms) => {
      skewMs = ms
    },
    advance: () => Promise.reject(new Error('This clock goes by itself.')),
    close: async () => {
      await running.drain()
      running.stop()
      await store.close()
    },
  }
}
