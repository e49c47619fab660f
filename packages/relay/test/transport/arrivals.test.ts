/** What a QUIC endpoint keeps for a relay that is behind. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import { ArrivalBatch } from '../../src/transport/quic/arrivals.ts'
import type { Arrivals } from '../../src/transport/quic/worker-messages.ts'

const MIB = 1024 * 1024

void test('of a stream that sends too much in one turn, no more than the bound is kept', async (t) => {
  const { port1: relay, port2: endpoint } = new MessageChannel()
  t.after(() => relay.close())
  const overflowed: number[] = []
  const batch = new ArrivalBatch(endpoint, new SharedArrayBuffer(4), (stream) => overflowed.push(stream))
  batch.opened(1, '127.0.0.1', false)
  batch.opened(2, '127.0.0.1', false)
  for (let sent = 0; sent < 40; sent++) batch.received(1, new Uint8Array(MIB))
  batch.received(2, new Uint8Array(10))
  const [{ chunks, bytes }] = (await once(relay, 'message')) as [Arrivals]
  assert.deepEqual(chunks, [1, 9 * MIB, 2, 10])
  assert.equal(bytes.byteLength, 9 * MIB + 10)
  assert.deepEqual(overflowed, [1])
})
