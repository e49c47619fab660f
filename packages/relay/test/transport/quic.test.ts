import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { test } from 'node:test'
import { CELL_BYTES } from '@static/protocol'
import { LOOPBACKS } from '@static/testkit/ports'
import { quicCertificates, dial, echo, open, startQuicBench } from '../support/quic-bench.ts'

const WINDOW = 256 * 1024

void test('cells arrive complete and in order, on many concurrent streams', async (t) => {
  const { proxies } = await quicCertificates()
  const relay = await startQuicBench(t, echo)
  const proxy = await dial(t, relay.target({ clientCertificate: proxies.issue() }))
  const agent = await dial(t, relay.target())
  const dialled = [open(agent), ...Array.from({ length: 20 }, () => open(proxy))]
  const sent = dialled.map(() => randomBytes(100 * CELL_BYTES))
  for (let cell = 0; cell < 100; cell++) {
    for (const [at, { stream }] of dialled.entries()) {
      stream.write(sent[at]!.subarray(cell * CELL_BYTES, (cell + 1) * CELL_BYTES))
    }
  }
  await Promise.all(dialled.map(({ watch, bytes }) => watch.until(() => bytes() === 100 * CELL_BYTES)))
  for (const [at, { received }] of dialled.entries()) assert.ok(received().equals(sent[at]!), `stream ${at}`)
  assert.equal(relay.streams.filter(({ peer }) => peer.proxy).length, 20)
  assert.deepEqual(relay.transport.sessions(), [1])
})

void test('4 MiB both ways, 256 KiB in flight', async (t) => {
  const relay = await startQuicBench(t, echo)
  const sent = randomBytes(4 * 1024 * 1024)
  const { stream, watch, bytes, received } = open(await dial(t, relay.target()), () => send())
  let at = 0
  const send = (): void => {
    for (; at < sent.length && at - bytes() < WINDOW; at += 16 * 1024) stream.write(sent.subarray(at, at + 16 * 1024))
  }
  send()
  await watch.until(() => bytes() === sent.length)
  const digest = (data: Uint8Array): string => createHash('sha256').update(data).digest('hex')
  assert.equal(digest(received()), digest(sent))
})

for (const host of ['localhost', '::', '0.0.0.0']) {
  void test(`listening on ${host} accepts IPv4 and IPv6`, async (t) => {
    const relay = await startQuicBench(t, { ...echo, host })
    for (const address of LOOPBACKS) {
      const { stream, watch, bytes } = open(await dial(t, relay.target({ host: address })))
      stream.write(Buffer.of(1))
      await watch.until(() => bytes() === 1)
    }
    const { ports } = relay.transport
    const endpoint = { port: ports[0], ports }
    assert.deepEqual(
      relay.streams.map(({ peer }) => peer),
      LOOPBACKS.map((address) => ({ transport: 'quic', form: 'cbor', address, proxy: false, endpoint })),
    )
  })
}

void test('one write reaches streams on all endpoints', async (t) => {
  const relay = await startQuicBench(t, { endpoints: 2 })
  const [first = 0, second] = relay.transport.ports
  assert.equal(second, first + 1)
  const connections = [dial(t, relay.target()), dial(t, relay.target()), dial(t, relay.target({ port: first + 1 }))]
  const dialled = (await Promise.all(connections)).map((connection) => open(connection))
  for (const { stream } of dialled) stream.write(Buffer.of(1))
  await relay.watch.until(() => relay.streams.length === 3)
  assert.deepEqual(relay.transport.sessions(), [2, 1])
  const cells = randomBytes(3 * CELL_BYTES)
  const ids = relay.streams.map(({ id }) => id)
  relay.transport.write(ids, cells)
  relay.transport.write(ids.slice(1), cells)
  // A stream that the transport does not know is nobody's mistake: it may have closed a moment ago.
  relay.transport.write([1, ...ids], Buffer.of(7))
  for (const { watch, bytes } of dialled) await watch.until(() => bytes() % CELL_BYTES === 1)
  const lengths = dialled.map(({ bytes }) => bytes())
  assert.deepEqual(
    lengths.toSorted((a, b) => a - b),
    [3, 6, 6].map((count) => count * CELL_BYTES + 1),
  )
  assert.ok(dialled.every(({ received }) => received().subarray(0, cells.length).equals(cells)))
})

void test('calls of the handler while a stream opens are not lost', async (t) => {
  const relay = await startQuicBench(t, {
    onOpen: (transport, stream) => {
      transport.write([stream], Buffer.from('challenge'))
      transport.end(stream)
      return true
    },
  })
  const { stream, received, closed } = open(await dial(t, relay.target()))
  stream.write(Buffer.of(1))
  assert.equal(await closed, undefined)
  assert.equal(received().toString(), 'challenge')
  assert.deepEqual(relay.transport.sessions(), [0])
})

void test('the end of a stream comes after everything written, and ends an agent’s connection', async (t) => {
  const last = randomBytes(300 * CELL_BYTES)
  const relay = await startQuicBench(t, {
    onChunk: (transport, stream) => {
      transport.write([stream], last)
      transport.end(stream)
      transport.write([stream], Buffer.from('too late'))
    },
  })
  const connection = await dial(t, relay.target())
  const { stream, received, closed } = open(connection)
  stream.write(Buffer.of(1))
  assert.equal(await closed, undefined)
  assert.ok(received().equals(last))
  assert.equal(relay.streams[0]?.closed, false, 'the handler is not told what it did itself')
  // The connection follows its only stream.
  const again = async (): Promise<void> => {
    for (;;) await open(connection).closed
  }
  await assert.rejects(again(), { code: 'connection_error' })
})

void test('a stream that the handler rejects is ended', async (t) => {
  const relay = await startQuicBench(t, { onOpen: () => false })
  const { stream, closed } = open(await dial(t, relay.target()))
  stream.write(Buffer.of(1))
  assert.equal(await closed, undefined)
  assert.equal(relay.streams.length, 1)
  assert.deepEqual(relay.transport.sessions(), [0])
})

void test('an agent has one stream, a proxy many', async (t) => {
  const { proxies } = await quicCertificates()
  const relay = await startQuicBench(t, echo)
  const agent = await dial(t, relay.target())
  const first = open(agent)
  first.stream.write(Buffer.of(1))
  await first.watch.until(() => first.bytes() === 1)
  const second = open(agent)
  second.stream.write(Buffer.of(1))
  assert.match((await second.closed)?.message ?? '', /was cut off/)
  first.stream.write(Buffer.of(2))
  await first.watch.until(() => first.bytes() === 2)
  assert.equal(relay.streams.length, 1)

  const proxy = await dial(t, relay.target({ clientCertificate: proxies.issue() }))
  const many = Array.from({ length: 500 }, () => open(proxy))
  for (const { stream } of many) stream.write(Buffer.of(3))
  await Promise.all(many.map(({ watch, bytes }) => watch.until(() => bytes() === 1)))
  // One of them ends; the others go on.
  many[0]!.stream.end()
  assert.equal(await many[0]!.closed, undefined)
  await relay.watch.until(() => relay.streams.filter(({ closed }) => closed).length === 1)
  many[1]!.stream.write(Buffer.of(4))
  await many[1]!.watch.until(() => many[1]!.bytes() === 2)
})

void test('garbage on the port is ignored', async (t) => {
  const relay = await startQuicBench(t, echo)
  const { stream, watch, bytes } = open(await dial(t, relay.target()))
  const socket = createSocket('udp4')
  t.after(() => socket.close())
  socket.connect(relay.transport.ports[0] ?? 0, '127.0.0.1')
  await once(socket, 'connect')
  for (let count = 0; count < 500; count++) {
    const garbage = randomBytes(1 + ((count * 7) % 1400))
    if (count % 2 === 0) garbage.writeUInt8(0xc0 | (garbage[0]! & 0x3f), 0)
    socket.send(garbage)
  }
  stream.write(Buffer.of(1))
  await watch.until(() => bytes() === 1)
  assert.equal(relay.streams.length, 1)
})
