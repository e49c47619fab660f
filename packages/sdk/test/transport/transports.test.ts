/** QUIC and gRPC against a real relay: one suite for both. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { create } from '@bufbuild/protobuf'
import { CELL_BYTES, type StaticError } from '@static/protocol'
import { SendMessageRequestSchema } from '@static/protocol/relay'
import { LOOPBACKS } from '@static/testkit/ports'
import { Agent, makeKey, type Wire } from '@static/testkit/agent'
import { startTestRelay, type TestRelay } from '@static/testkit/relay'
import type { Target, Transport } from '../../src/ports/index.ts'
import { makeGrpcTransport } from '../../src/transport/grpc.ts'
import { makeQuicTransport } from '../../src/transport/quic.ts'
import { newAuthority } from '@static/testkit/certificates'
import { dial, refused } from './support.ts'

const WAYS = { quic: makeQuicTransport, grpc: makeGrpcTransport }
/** Messages of 200,000 bytes. */
const COUNT = 20n
const CHILD = fileURLToPath(new URL('dialling-child.ts', import.meta.url))

for (const way of ['quic', 'grpc'] as const) {
  void describe(`over ${way}`, () => {
    const transport = WAYS[way]()
    let relay: TestRelay
    before(async () => {
      relay = await startTestRelay(way)
    })
    after(() => relay.close())
    const target = (more: Partial<Target> = {}): Target => ({
      host: '127.0.0.1',
      port: way === 'quic' ? relay.quicPorts[0]! : relay.grpcPort,
      serverName: 'localhost',
      ca: relay.ca,
      ...more,
    })

    for (const host of [...LOOPBACKS, 'localhost']) {
      void test(`a session opens with ${host}, and ends cleanly`, async () => {
        const ends: unknown[] = []
        const agent = await Agent.connect(wireOf(transport, target({ host }), (reason) => ends.push(reason)))
        assert.equal(agent.form, way === 'quic' ? 'cbor' : 'protobuf')
        assert.deepEqual(Buffer.from(agent.opened!.agentId), Buffer.from(agent.id))
        agent.close()
        await agent.ended
        assert.deepEqual(ends, [undefined])
      })
    }

    void test('megabytes go both ways, and what was written before the end arrives', async () => {
      const jwt = relay.api.token('account')
      const sender = await Agent.connect(wireOf(transport, target()), { jwt })
      const reader = await Agent.connect(wireOf(transport, target()))
      const channel = await sender.createChannel('acme/support/bulk')
      await reader.request('resume', {})
      await sender.commit(channel, 0n, { adds: [reader.id] })
      const { position } = await reader.next('deliverWelcome')
      reader.ack(channel, position?.index ?? 0n)
      await reader.request('resume', { channelIds: [channel] })
      const ciphertext = new Uint8Array(200_000).fill(7)
      for (let counter = 1n; counter < COUNT; counter++) await sender.send(channel, 1n, counter, ciphertext)
      // Nobody waits for the answer to the last one: the end follows at once.
      const messageId = new Uint8Array(randomBytes(16))
      const request = { channelId: channel, slot: 1n, counter: COUNT, ciphertext, messageId }
      sender.post({ case: 'sendMessage', value: create(SendMessageRequestSchema, request) })
      sender.close()
      await sender.ended
      for (let counter = 1n; counter <= COUNT; counter++) {
        const message = await reader.next('deliverMessage')
        assert.equal(message.counter, counter)
        assert.ok(Buffer.from(ciphertext).equals(message.ciphertext))
        reader.ack(channel, message.index)
      }
      reader.close()
      await reader.ended
    })

    void test('the relay ends a replaced session cleanly', async () => {
      const key = makeKey()
      const ends: unknown[] = []
      const first = await Agent.connect(
        wireOf(transport, target(), (reason) => ends.push(reason)),
        { key },
      )
      const second = await Agent.connect(wireOf(transport, target()), { key })
      await first.ended
      assert.ok(await first.next('sessionClosing'))
      assert.deepEqual(ends, [undefined])
      second.close()
      await second.ended
    })

    void test('nothing happens after the end', async () => {
      const line = await dial(transport, target())
      line.stream.end()
      line.stream.end()
      line.stream.write(new Uint8Array(CELL_BYTES))
      await line.closed
      line.stream.write(new Uint8Array(CELL_BYTES))
      line.stream.end()
      await new Promise(setImmediate)
      assert.deepEqual(line.lastWords, [undefined])
    })

    void test('an untrusted certificate is refused with a clear message', async () => {
      const stranger = await newAuthority()
      const wrong = (more: Partial<Target>, message: RegExp): Promise<void> =>
        assert.rejects(dial(transport, target(more)), refused('connection_error', message))
      const trusted =
        /^The certificate that 127\.0\.0\.1:\d+ presented for "localhost" is not signed by a trusted CA\. If it is the right server, trust its CA/
      await wrong({ ca: stranger.cert }, trusted)
      await wrong({ ca: undefined }, trusted)
      await wrong({ serverName: 'relay.example' }, / for "relay\.example" is not for this name/)
      await wrong({ host: 'no.invalid' }, /^The host name no\.invalid cannot be resolved\.$/)
      await assert.rejects(dial(transport, target({ serverName: '127.0.0.1' })), refused('invalid_request', /DNS name/))
    })

    void test('a port where nothing listens, and one where nothing answers, are distinguished', async () => {
      const hasty = WAYS[way]({ connectTimeoutMs: 300 })
      const silent = await openSilentPort(way)
      await assert.rejects(
        dial(hasty, target({ port: silent.port })),
        refused('connection_error', /^(No answer from|Connecting to) 127\.0\.0\.1:\d+/),
      )
      await silent.close()
      const patient = WAYS[way]({ connectTimeoutMs: 120_000 })
      const begun = performance.now()
      await assert.rejects(
        dial(patient, target({ port: silent.port })),
        refused('connection_error', /^Nothing is listening on (UDP|TCP) port \d+ of 127\.0\.0\.1\.$/),
      )
      assert.ok(performance.now() - begun < 60_000, 'long before the time is up')
    })

    void test('a process exits after its connection has ended, and trusts what Node trusts', async () => {
      const words = [CHILD, way, String(target().port)]
      const env = { ...process.env, NODE_EXTRA_CA_CERTS: relay.caFile }
      const { stdout } = await promisify(execFile)(process.execPath, words, { env, timeout: 120_000 })
      assert.equal(stdout, 'closed in order\n')
    })

    void test('a relay that stops ends its sessions', async () => {
      const line = await dial(transport, target())
      line.stream.write(new Uint8Array(CELL_BYTES))
      await relay.restart()
      await line.closed
      assert.equal(line.lastWords.length, 1)
      const next = await dial(transport, target())
      next.stream.end()
      assert.equal(await next.closed, undefined)
    })
  })
}

/** A way for agents of the relay's tests. */
function wireOf(transport: Transport, target: Target, closed: (reason?: StaticError) => void = () => {}): Wire {
  return {
    form: transport.form,
    serverName: target.serverName,
    open: (handlers) =>
      transport.dial(target, {
        data: (chunk) => handlers.data(chunk),
        closed: (reason) => {
          closed(reason)
          handlers.closed()
        },
      }),
  }
}

/** A port that takes everything and says nothing. */
async function openSilentPort(way: 'quic' | 'grpc'): Promise<{ port: number; close(): Promise<void> }> {
  if (way === 'quic') {
    const socket = createSocket('udp4')
    socket.bind(0, '127.0.0.1')
    await once(socket, 'listening')
    return { port: socket.address().port, close: () => new Promise((resolve) => socket.close(() => resolve())) }
  }
  const server = createServer((socket) => socket.on('error', () => {}).resume())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  return { port, close: () => new Promise((resolve) => server.close(() => resolve())) }
}
