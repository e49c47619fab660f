/** What a node's end of the bus counts for the metrics. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { MemoryBus } from '@static/testkit/bus/memory'
import { randomNumbers, SEED } from '@static/testkit/random'
import { NodeBus } from '../../src/bus/node-bus.ts'
import { makeBusMetrics } from '../../src/metrics/bus.ts'

test('forged, repeated and old messages are counted apart from accepted ones, and so are connections', async () => {
  let time = 1_000_000
  const now = (): number => time
  const bus = new MemoryBus({ random: randomNumbers(SEED), post: (deliver) => deliver() })
  const open = (node: string): NodeBus => {
    const options = { relayId: new Uint8Array(16), key: new Uint8Array(32), node: node.repeat(32), wire: bus.wire }
    return new NodeBus({ ...options, now, monotonic: now }, { news: () => {}, doubt: () => {} })
  }
  const [one, other] = [open('a'), open('b')]
  one.tick()
  other.tick()
  const [, beat] = bus.carried
  assert.ok(beat)
  assert.deepEqual(one.counts.received, 1)
  bus.inject(beat.subject, beat.bytes)
  bus.inject(beat.subject, new Uint8Array(100))
  bus.inject(beat.subject, new Uint8Array(3))
  time += 31_000
  bus.inject(beat.subject, beat.bytes)
  bus.connect(false)
  bus.connect(true)
  const { received, dropped, reconnects } = one.counts
  assert.deepEqual([received, dropped, reconnects], [1, { mac: 2, replay: 1, stale: 1, deaf: 0 }, 1])
  for (let left = 1000; left > 0; left--) bus.inject(beat.subject, new Uint8Array(1))
  bus.inject(beat.subject, beat.bytes)
  assert.deepEqual([one.counts.dropped.mac, one.counts.dropped.deaf], [1002, 1])

  const registry = new Registry()
  const catchUps = { heads: 3, notices: 4, gaps: 5 }
  makeBusMetrics(registry, { bus: () => ({ state: one.state, counts: one.counts, catchUps }) })
  const text = await registry.metrics()
  for (const line of [
    'static_relay_bus_connected 0',
    'static_relay_bus_received_total 1',
    'static_relay_bus_dropped_total{reason="mac"} 1002',
    'static_relay_bus_dropped_total{reason="replay"} 1',
    'static_relay_bus_reconnects_total 1',
    'static_relay_bus_reads_total{what="heads"} 3',
    'static_relay_bus_gaps_total 5',
  ]) {
    assert.ok(text.split('\n').includes(line), `${line}\n${text}`)
  }
  const none = new Registry()
  makeBusMetrics(none, { bus: () => undefined })
  assert.equal((await none.metrics()).trim(), '')
})
