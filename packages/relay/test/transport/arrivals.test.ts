/** What a QUIC endpoint keeps for a relay that is behind. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import { ArrivalBatch } from '../../src/transport/quic/arrivals.ts'
import type { Arrivals } from '../../src/transport/quic/worker-messages.ts'

const MIB = 1024 * 1024

/** Lets the batch post what it has collected in this turn. */
const nextTurn = async (): Promise<void> => {
  await new Promise((resolve) => setImmediate(resolve))
}

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

void test('of many streams that send too much in one turn, no more than the bound of all is kept', async (t) => {
  const { port1: relay, port2: endpoint } = new MessageChannel()
  t.after(() => relay.close())
  const batch = new ArrivalBatch(endpoint, new SharedArrayBuffer(4), () => {})
  for (let stream = 1; stream <= 40; stream++) batch.opened(stream, '127.0.0.1', true)
  for (let stream = 1; stream <= 40; stream++) {
    for (let sent = 0; sent < 7; sent++) batch.received(stream, new Uint8Array(MIB))
  }
  const [{ bytes }] = (await once(relay, 'message')) as [Arrivals]
  assert.ok(bytes.byteLength <= 129 * MIB, `${bytes.byteLength / MIB} MiB`)
})

void test('bytes of closed streams are not held against the others', async (t) => {
  const { port1: relay, port2: endpoint } = new MessageChannel()
  t.after(() => relay.close())
  const overflowed: number[] = []
  const batch = new ArrivalBatch(endpoint, new SharedArrayBuffer(4), (stream) => overflowed.push(stream))
  const [flooders, honest] = [Array.from({ length: 9 }, (_, at) => at + 1), 10]
  for (const stream of [...flooders, honest]) batch.opened(stream, '127.0.0.1', false)
  for (const stream of flooders) batch.received(stream, new Uint8Array(7.5 * MIB))
  for (let turn = 0; turn < 20; turn++) {
    batch.received(honest, new Uint8Array(1024))
    await nextTurn()
    for (const stream of flooders) if (!overflowed.includes(stream)) batch.received(stream, new Uint8Array(MIB))
  }
  assert.deepEqual(
    overflowed.toSorted((a, b) => a - b),
    flooders,
  )
})

void test('once closed streams have used up all of the room, the others may still send a little', async (t) => {
  const { port1: relay, port2: endpoint } = new MessageChannel()
  t.after(() => relay.close())
  const overflowed: number[] = []
  const batch = new ArrivalBatch(endpoint, new SharedArrayBuffer(4), (stream) => overflowed.push(stream))
  const [idle, slow] = [1, 2]
  for (const stream of [idle, slow]) batch.opened(stream, '127.0.0.1', false)
  for (let turn = 0; turn < 20; turn++) {
    const flooder = slow + 1 + turn
    batch.opened(flooder, '127.0.0.1', false)
    batch.received(flooder, new Uint8Array(8 * MIB))
    batch.closed(flooder)
    if (!overflowed.includes(flooder)) batch.forget(flooder)
    await nextTurn()
  }
  batch.received(slow, new Uint8Array(4096))
  await nextTurn()
  assert.deepEqual(
    overflowed.filter((stream) => stream === idle || stream === slow),
    [],
  )
  batch.received(slow, new Uint8Array(MIB))
  await nextTurn()
  assert.deepEqual(overflowed.slice(-1), [slow], 'but no more than that')
})
