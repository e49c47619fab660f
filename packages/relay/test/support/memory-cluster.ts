/** Several relay nodes without sockets: one store, one bus, one API, one clock that stands still. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { MemoryBus } from '@static/testkit/bus/memory'
import { randomNumbers, SEED } from '@static/testkit/random'
import { FakeApi } from '@static/testkit/relay/api'
import { openMemoryStores } from '@static/testkit/store/relay-memory'
import { NodeBus } from '../../src/bus/node-bus.ts'
import type { CoreRunner } from '../../src/runner/core-runner.ts'
import { settingsFrom } from '../../src/settings.ts'
import { OutcomeUnknown, type Store, type StoreEvent } from '../../src/ports.ts'
import { type MemoryRelay, quiet, startMemoryRelay } from './memory-relay.ts'

/** Nodes that know of each other. */
export interface MemoryCluster {
  readonly nodes: readonly [MemoryRelay, MemoryRelay, MemoryRelay]
  readonly bus: MemoryBus
  /** Nodes, counted from 0, that cannot write, and how long their store was silent when that was noticed. */
  readonly broken: Map<number, number>
  /** Nodes, counted from 0, whose next message is stored, but whose store does not know that, and has no event. */
  readonly unsure: Set<number>
  /** How far the store's clock is ahead of those of nodes, counted from 0. */
  readonly clockOffsets: Map<number, number>
  /** How many nodes the store knows of. */
  readonly known: { nodes: number }
  /** Lets time pass at all nodes and does what is due. */
  advance(ms: number): Promise<void>
}

/** What a cluster is made with. */
export interface MemoryClusterOptions {
  readonly settings?: object
  readonly maxBytes?: number
  /** Whether the nodes have just started: they have not heard of each other yet. */
  readonly isNew?: boolean
}

/** Three nodes. */
export async function openMemoryCluster(
  t: TestContext,
  { settings = {}, maxBytes = 1024 * 1024, isNew = false }: MemoryClusterOptions = {},
): Promise<MemoryCluster> {
  let time = Date.UTC(2027, 0, 15, 12)
  const now = (): number => time
  const { retention } = settingsFrom(settings)
  const bus = new MemoryBus({ random: randomNumbers(SEED), post: (deliver) => queueMicrotask(deliver), maxBytes })
  const made: { driver?: CoreRunner }[] = [{}, {}, {}]
  const muted = new Set<number>()
  const listener = (at: number) => (event: StoreEvent) => {
    if (!muted.has(at)) made[at]?.driver?.event(event)
  }
  const stores = openMemoryStores({ retention }, [listener(0), listener(1), listener(2)])
  const api = new FakeApi(now)
  const broken = new Map<number, number>()
  const unsure = new Set<number>()
  const clockOffsets = new Map<number, number>()
  const known = { nodes: 1 }
  const start = async (at: number): Promise<MemoryRelay> => {
    const own = made[at] ?? {}
    const inner = stores[at] ?? stores[0]
    const run: Store['run'] = async (name, request) => {
      if (name !== 'append' || !unsure.delete(at)) return inner.run(name, request)
      muted.add(at)
      await inner.run(name, request)
      muted.delete(at)
      throw new OutcomeUnknown(new Error('the connection was lost'))
    }
    const store = {
      ...inner,
      run,
      healthy: () => !broken.has(at),
      silentMs: () => broken.get(at) ?? 0,
      clockOffsetMs: () => clockOffsets.get(at),
      nodes: () => known.nodes,
    }
    const { relayId, busKey = new Uint8Array() } = store.deployment
    const node = randomBytes(16).toString('hex')
    const end = new NodeBus(
      { relayId, key: busKey, node, wire: bus.wire, now, monotonic: now },
      { news: (news, from) => own.driver?.news(news, from), doubt: () => own.driver?.doubt() },
    )
    const relay = await startMemoryRelay({ settings, now, node: { api, store, bus: end, made: own } })
    relay.driver.stop()
    return relay
  }
  const nodes = [await start(0), await start(1), await start(2)] as const
  t.after(async () => {
    for (const node of nodes) {
      await node.close()
      assert.deepEqual(node.errors, [])
    }
  })
  const advance = async (ms: number): Promise<void> => {
    time += ms
    for (const { driver } of nodes) driver.tick()
    await quiet()
  }
  // They hear of each other.
  for (const ms of isNew ? [] : [0, 1000, 1000]) await advance(ms)
  return { nodes, bus, broken, unsure, clockOffsets, known, advance }
}
