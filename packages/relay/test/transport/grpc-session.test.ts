import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CELL_BYTES, frameCells } from '@static/protocol'
import { LOOPBACKS } from '@static/testkit/ports'
import type { ClientStream, GrpcClient, GrpcStatus } from '@static/testkit/agent/grpc-client'
import { startGrpcBench } from '../support/grpc-fakes.ts'
import { Gauge } from '../support/grpc-gauge.ts'

/** A session that gathers what comes. */
interface Gathered {
  readonly stream: ClientStream
  readonly bytes: Gauge
  readonly closed: Promise<GrpcStatus>
  all(): Buffer
}

function open(client: GrpcClient, metadata?: Record<string, string>): Gathered {
  const chunks: Uint8Array[] = []
  const bytes = new Gauge()
  const { promise: closed, resolve } = Promise.withResolvers<GrpcStatus>()
  const stream = client.openSession(
    {
      data(cells) {
        chunks.push(cells)
        bytes.add(cells.length)
      },
      closed: resolve,
    },
    metadata,
  )
  return { stream, bytes, closed, all: () => Buffer.concat(chunks) }
}

/** Cells whose bytes tell where they belong. */
function numbered(count: number): Buffer {
  const cells = Buffer.alloc(count * CELL_BYTES)
  for (let at = 0; at < cells.length; at += 4) cells.writeUInt32BE(at, at)
  return cells
}

test('cells arrive complete and in order, several of them in one call', async () => {
  await using bench = await startGrpcBench()
  const session = open(await bench.connect())
  const cells = numbered(400)
  bench.streams.echo = false
  session.stream.write(cells)
  await bench.streams.receivedBytes.reaches(cells.length)
  assert.ok(bench.streams.batches.length < 200, `${bench.streams.batches.length} calls for 400 cells`)
  bench.transport.write([1], cells)
  await session.bytes.reaches(cells.length)
  assert.deepEqual(session.all(), cells)
})

test('the cells are the same, whatever pieces the bytes arrive in', async () => {
  await using bench = await startGrpcBench()
  bench.streams.echo = false
  const received: Buffer[] = []
  bench.streams.received = (_stream, chunk) => {
    received.push(Buffer.from(chunk))
    bench.streams.receivedBytes.add(chunk.length)
  }
  const session = open(await bench.connect())
  const cells = numbered(3)
  const frames = frameCells(cells)
  for (let at = 0; at < frames.length; at += 7) {
    await new Promise((resolve) => session.stream.raw.write(frames.subarray(at, at + 7), resolve))
  }
  await bench.streams.receivedBytes.reaches(cells.length)
  assert.deepEqual(Buffer.concat(received), cells)
})

test('one write reaches every receiver and no one else', async () => {
  await using bench = await startGrpcBench()
  const clients = [await bench.connect(), await bench.connect()]
  const sessions = clients.flatMap((client) => [open(client), open(client)])
  await bench.streams.open.reaches(4)
  const ids = [...bench.streams.peers.keys()]
  bench.transport.write(ids.slice(0, 3), numbered(2))
  bench.transport.write(ids, numbered(1))
  await Promise.all(sessions.map(({ bytes }) => bytes.reaches(CELL_BYTES)))
  const sizes = await Promise.all(
    sessions.map(async (session) => {
      bench.transport.end(ids.shift() ?? 0)
      assert.equal((await session.closed).code, 0)
      return session.bytes.value
    }),
  )
  assert.deepEqual(sizes.sort(), [1024, 3072, 3072, 3072])
})

test('the handler gets the identity of the peer', async () => {
  await using bench = await startGrpcBench()
  for (const [count, host] of LOOPBACKS.entries()) {
    open(await bench.connect(host))
    await bench.streams.open.reaches(count + 1)
    assert.deepEqual([...bench.streams.peers.values()].at(-1), {
      transport: 'grpc',
      form: 'protobuf',
      address: host,
      proxy: false,
    })
  }
})

test('everything written before the end arrives, then status 0; the handler is not notified', async () => {
  await using bench = await startGrpcBench()
  const session = open(await bench.connect())
  await bench.streams.open.reaches(1)
  bench.transport.write([1], numbered(50))
  bench.transport.end(1)
  bench.transport.write([1], numbered(50))
  const { code, metadata } = await session.closed
  assert.equal(code, 0)
  assert.equal(metadata['content-type'], 'application/grpc+proto')
  assert.equal(session.bytes.value, 50 * CELL_BYTES)
  assert.equal(bench.streams.open.value, 1)
})

test('the agent ends the stream: the handler is notified once, and the stream ends cleanly', async () => {
  await using bench = await startGrpcBench()
  const client = await bench.connect()
  const session = open(client)
  session.stream.write(numbered(1))
  await session.bytes.reaches(CELL_BYTES)
  session.stream.end()
  assert.equal((await session.closed).code, 0)
  assert.equal(bench.streams.open.value, 0)
  // A reset, and a connection that goes.
  const [reset] = [open(client), open(client)]
  await bench.streams.open.reaches(2)
  reset.stream.raw.close(8)
  await bench.streams.open.is((count) => count === 1)
  client.session.destroy()
  await bench.streams.open.is((count) => count === 0)
})

test('a message that is not one cell ends the session with INVALID_ARGUMENT', async () => {
  await using bench = await startGrpcBench()
  const client = await bench.connect()
  const cell = frameCells(numbered(1))
  const wrong: Record<string, Buffer> = {
    'a cell of 1,023 bytes': Buffer.concat([Buffer.of(0, 0, 0, 4, 2, 0x0a, 0xff, 7), Buffer.alloc(1023)]),
    'an empty message': Buffer.of(0, 0, 0, 0, 0),
    'another field': Buffer.concat([Buffer.of(0, 0, 0, 4, 3, 0x12, 0x80, 8), Buffer.alloc(1024)]),
    'a huge length': Buffer.of(0, 0xff, 0xff, 0xff, 0xff),
  }
  for (const [name, bytes] of Object.entries(wrong)) {
    const session = open(client)
    const before = bench.streams.receivedBytes.value
    session.stream.raw.write(Buffer.concat([cell, bytes]))
    const { code } = await session.closed
    assert.equal(code, 3, name)
    // What came before was good.
    assert.equal(bench.streams.receivedBytes.value, before + CELL_BYTES, name)
  }
  const truncated = open(client)
  truncated.stream.raw.end(cell.subarray(0, 1000))
  assert.equal((await truncated.closed).code, 3)
  assert.equal(bench.streams.open.value, 0)
})

test('compressed messages and other encodings are UNIMPLEMENTED', async () => {
  await using bench = await startGrpcBench()
  const client = await bench.connect()
  const flagged = open(client)
  flagged.stream.raw.write(Buffer.of(1, 0, 0, 4, 3))
  assert.equal((await flagged.closed).code, 12)
  const { code, metadata } = await open(client, { 'grpc-encoding': 'gzip' }).closed
  assert.deepEqual([code, metadata['grpc-accept-encoding']], [12, 'identity'])
  assert.equal(bench.streams.open.value, 0)
})

test('a session that the handler rejects is UNAVAILABLE', async () => {
  await using bench = await startGrpcBench()
  bench.streams.accepting = false
  assert.equal((await open(await bench.connect()).closed).code, 14)
})

test('a peer that does not read is cut off at the limit, and others continue', async () => {
  await using bench = await startGrpcBench({ limits: { unsentBytes: 1024 * 1024 } })
  const [slow, quick] = [await bench.connect(), await bench.connect()]
  const stalled = open(slow)
  stalled.stream.raw.pause()
  await bench.streams.open.reaches(1)
  const other = open(quick)
  await bench.streams.open.reaches(2)
  const cells = numbered(64)
  let written = 0
  while (bench.streams.open.value === 2) {
    bench.transport.write([1, 2], cells)
    written += cells.length
    await other.bytes.reaches(written)
  }
  assert.ok(written < 3 * 1024 * 1024, `${written} bytes`)
  assert.equal(bench.streams.peers.has(1), false)
})

test('a peer that does not read cannot keep an ended stream open', async () => {
  await using bench = await startGrpcBench({ limits: { closeMs: 50 } })
  const client = await bench.connect()
  const stalled = open(client)
  stalled.stream.raw.pause()
  await bench.streams.open.reaches(1)
  bench.transport.write([1], numbered(1000))
  bench.transport.end(1)
  assert.equal((await stalled.closed).code, -1)
})
