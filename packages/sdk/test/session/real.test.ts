/** The session's driver against a real relay, by both ways. */
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { describe, test, type TestContext } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { CellJoiner, declarationBytes } from '@static/protocol'
import {
  CreateChannelRequestSchema,
  DeclarationSchema,
  ResumeRequestSchema,
  SendCommitRequestSchema,
  SendMessageRequestSchema,
} from '@static/protocol/relay'
import { sha256 } from '@static/testkit/agent'
import { quietPort } from '@static/testkit/ports'
import { startTestRelay, type TestRelay } from '@static/testkit/relay'
import { parseEndpoint } from '../../src/account/endpoint.ts'
import type { RelaySession, Transport } from '../../src/ports/index.ts'
import { openSession, type OpenedSession, type SessionOptions } from '../../src/session/core-runner.ts'
import { makeGrpcTransport } from '../../src/transport/grpc.ts'
import { makeQuicTransport } from '../../src/transport/quic.ts'
import { newAuthority } from '@static/testkit/certificates'
import { call, Listener, makeSigner, refusedWith } from './support.ts'

const TRANSPORTS = { quic: makeQuicTransport(), grpc: makeGrpcTransport() }
const TIMEOUT = { timeout: 240_000 }

async function startRelay(
  t: TestContext,
  way: 'quic' | 'grpc',
  settings: object = {},
  endpoints = 1,
): Promise<TestRelay> {
  const relay = await startTestRelay(way, { settings, endpoints })
  t.after(() => relay.close())
  return relay
}

type Opened = OpenedSession & ReturnType<typeof makeSigner> & { readonly listener: Listener }

/** A session with a relay, closed after the test. */
function open(t: TestContext, relay: TestRelay, way: 'quic' | 'grpc', changes: Partial<SessionOptions> = {}): Opened {
  const listener = new Listener()
  const key = makeSigner()
  const port = way === 'quic' ? relay.quicPorts[0] : relay.grpcPort
  const opened = openSession({
    endpoint: parseEndpoint(`${way === 'quic' ? 'quic' : 'https'}://localhost:${port}`),
    ca: relay.ca,
    transports: TRANSPORTS,
    pins: new Map(),
    ...key,
    tokens: () => Promise.resolve({ jwt: relay.api.token('acct'), expiresAt: Date.now() + 3_600_000 }),
    listener,
    ...changes,
  })
  t.after(() => opened.session.close())
  return { ...opened, ...key, listener }
}

/** A transport that writes down which ports are dialled. */
function watched(transport: Transport, ports: number[]): Transport {
  return {
    form: transport.form,
    dial: (target, handlers) => {
      ports.push(target.port)
      return transport.dial(target, handlers)
    },
  }
}

/** A transport that tells of every ping of the relay. */
function hearing(transport: Transport, onPing: () => void): Transport {
  return {
    form: transport.form,
    dial: (target, handlers) => {
      const joiner = new CellJoiner(8 * 1024 * 1024)
      const data = (bytes: Uint8Array): void => {
        joiner.push(bytes, ({ type }) => void (type === 'ping' && onPing()))
        handlers.data(bytes)
      }
      return transport.dial(target, { data, closed: (reason) => handlers.closed(reason) })
    },
  }
}

/** Sends messages of 50,000 bytes in one turn; their indexes. */
async function sendAll(session: RelaySession, channelId: Uint8Array, slot: bigint, count: number): Promise<number[]> {
  const sends = Array.from({ length: count }, (_, at) =>
    call(session, {
      case: 'sendMessage',
      value: create(SendMessageRequestSchema, {
        channelId,
        slot,
        counter: BigInt(at + 1),
        messageId: randomBytes(16),
        ciphertext: randomBytes(50_000),
      }),
    }),
  )
  return (await Promise.all(sends)).map(({ index }) => Number(index))
}

/** Commits another agent into a channel, as far as a relay can tell. */
async function addMember(owner: Opened, publicKey: Uint8Array, channelId: Uint8Array): Promise<void> {
  const place = { channelId, slot: 0n, messageId: randomBytes(16), commit: randomBytes(200) }
  const declaration = create(DeclarationSchema, { adds: [sha256(publicKey)] })
  declaration.signature = owner.sign(declarationBytes({ ...place, commitHash: sha256(place.commit) }, declaration))
  const welcomes = [{ agentId: sha256(publicKey), welcome: randomBytes(300) }]
  const value = create(SendCommitRequestSchema, { ...place, declaration, welcomes })
  await call(owner.session, { case: 'sendCommit', value })
}

for (const way of ['quic', 'grpc'] as const) {
  void describe(`a session over ${way}`, () => {
    test('opens, sends, receives and survives a restart of the relay', TIMEOUT, async (t) => {
      const relay = await startRelay(t, way)
      const { session, ready, listener } = open(t, relay, way)
      await ready
      assert.deepEqual(
        listener.infos.map(({ way, guest, keyPackages }) => ({ way, guest, keyPackages })),
        [{ way, guest: false, keyPackages: 0 }],
      )
      assert.deepEqual(
        listener.pins.map(({ endpoint }) => endpoint),
        ['localhost'],
      )

      const channelId = new Uint8Array(randomBytes(16))
      const channel = create(CreateChannelRequestSchema, { name: 'acme/a/b', channelId, welcome: randomBytes(64) })
      await call(session, { case: 'createChannel', value: channel })
      await assert.rejects(
        call(session, { case: 'createChannel', value: { ...channel, name: 'no' } }),
        refusedWith('channel_error', /./),
      )
      await call(session, { case: 'resume', value: create(ResumeRequestSchema, { channelIds: [channelId] }) })

      // More than a window, in one turn: marks let all of it through.
      const indexes = await sendAll(session, channelId, 0n, 40)
      assert.deepEqual(
        indexes,
        Array.from({ length: 40 }, (_, at) => at + 1),
      )
      await listener.until(() => listener.pushes.length === 40)
      session.ack([{ channelId, index: 40n }])
      // Read before the relay stops, since this is.
      await call(session, { case: 'resume', value: create(ResumeRequestSchema, { channelIds: [channelId] }) })

      await relay.restart()
      await listener.until(() => listener.infos.length === 2)
      assert.equal(listener.losses.length, 1)
      const { channels } = await call(session, { case: 'resume', value: create(ResumeRequestSchema, {}) })
      assert.equal(channels[0]?.cursor?.index, 40n)
      assert.equal(listener.pins.length, 1, 'the pin holds over restarts')
      await session.close()
    })

    test('a reader that holds gets one window, stays connected, and gets the rest later', TIMEOUT, async (t) => {
      const relay = await startRelay(t, way, { session: { pingMs: 500, pongMs: 1500 } })
      const writer = open(t, relay, way)
      let pings = 0
      const enough = Promise.withResolvers<void>()
      const heard = hearing(TRANSPORTS[way], () => void (++pings === 5 && enough.resolve()))
      const reader = open(t, relay, way, { transports: { ...TRANSPORTS, [way]: heard } })
      await Promise.all([writer.ready, reader.ready])
      const channelId = new Uint8Array(randomBytes(16))
      const channel = create(CreateChannelRequestSchema, { name: 'acme/a/b', channelId, welcome: randomBytes(64) })
      await call(writer.session, { case: 'createChannel', value: channel })
      await addMember(writer, reader.publicKey, channelId)
      const resume = create(ResumeRequestSchema, { channelIds: [channelId] })
      await call(reader.session, { case: 'resume', value: resume })
      reader.session.hold()
      await sendAll(writer.session, channelId, 1n, 40)
      // The relay pings again only if there was a sign of life; otherwise it cuts the reader off.
      pings = 0
      await Promise.race([enough.promise, reader.listener.until(() => reader.listener.losses.length > 0)])
      const received = (): number => reader.listener.pushes.filter((push) => push.case === 'deliverMessage').length
      const held = received()
      assert.ok(held >= 4 && held <= 8, `${held} messages of 50,000 bytes`)
      reader.session.release()
      await reader.listener.until(() => received() === 40)
      assert.deepEqual(reader.listener.losses, [])
    })

    test('is refused at once by a relay with an unknown authority', TIMEOUT, async (t) => {
      const relay = await startRelay(t, way)
      const { cert } = await newAuthority()
      const ports: number[] = []
      const transports = { ...TRANSPORTS, [way]: watched(TRANSPORTS[way], ports) }
      const { ready } = open(t, relay, way, { ca: cert, transports })
      await assert.rejects(ready, refusedWith('connection_error', /^The certificate /))
      assert.equal(ports.length, 1)
    })

    test('is refused at once with a token that the relay does not accept', TIMEOUT, async (t) => {
      const relay = await startRelay(t, way)
      const { ready } = open(t, relay, way, {
        tokens: () => Promise.resolve({ jwt: 'no.such.token', expiresAt: Date.now() + 3_600_000 }),
      })
      await assert.rejects(ready, refusedWith('auth_failed', /./))
    })
  })
}

test('a full QUIC endpoint redirects the next session to another port', TIMEOUT, async (t) => {
  const relay = await startRelay(t, 'quic', { streams: { quicPerEndpoint: 1 } }, 2)
  const ports: number[] = []
  const transports = { ...TRANSPORTS, quic: watched(TRANSPORTS.quic, ports) }
  for (let at = 0; at < 2; at++) {
    const { ready } = open(t, relay, 'quic', { transports })
    await ready
  }
  const [first, second] = relay.quicPorts
  assert.deepEqual(ports, [first, first, second])
})

test('a guest whose UDP port is closed falls back to gRPC', TIMEOUT, async (t) => {
  const relay = await startRelay(t, 'grpc')
  const endpoint = parseEndpoint(`quic://localhost:${await quietPort()}`)
  const { session, ready, listener } = open(t, relay, 'grpc', {
    endpoint,
    fallback: true,
    grpcPort: relay.grpcPort,
    tokens: undefined,
  })
  await ready
  assert.deepEqual(
    listener.infos.map(({ way, guest }) => ({ way, guest })),
    [{ way: 'grpc', guest: true }],
  )
  await call(session, { case: 'resume', value: create(ResumeRequestSchema, {}) })
})

for (const way of ['quic', 'grpc'] as const) {
  test(`tells its gRPC port over ${way}; an agent whose UDP is blocked later dials that one`, TIMEOUT, async (t) => {
    const relay = await startRelay(t, way)
    const first = open(t, relay, way)
    await first.ready
    assert.deepEqual(
      first.listener.pins.map(({ relay: { grpcPort } }) => grpcPort),
      [relay.grpcPort],
    )
    const endpoint = parseEndpoint(`quic://localhost:${await quietPort()}`)
    const pins = new Map(first.listener.pins.map(({ endpoint: host, relay: known }) => [host, known]))
    const later = open(t, relay, 'grpc', { endpoint, fallback: true, pins })
    await later.ready
    assert.deepEqual(
      later.listener.infos.map((info) => info.way),
      ['grpc'],
    )
  })
}

test('reports why when neither transport works', TIMEOUT, async (t) => {
  const relay = await startRelay(t, 'grpc')
  const endpoint = parseEndpoint(`quic://localhost:${await quietPort()}`)
  const { ready } = open(t, relay, 'quic', { endpoint, fallback: true, grpcPort: await quietPort() })
  await assert.rejects(
    ready,
    refusedWith('connection_error', /UDP port \d+ .* The gRPC fallback also failed: .*TCP port/),
  )
})

test('moves from gRPC to QUIC when the UDP port opens', TIMEOUT, async (t) => {
  const relay = await startRelay(t, 'quic')
  const endpoint = parseEndpoint(`quic://localhost:${relay.quicPorts[0]}`)
  // A hole in the way: the first dials go to a port where a socket swallows everything.
  const hole = createSocket('udp4')
  hole.bind(0, '127.0.0.1')
  await once(hole, 'listening')
  t.after(() => hole.close())
  let isBlocked = true
  const hasty = makeQuicTransport({ connectTimeoutMs: 300 })
  let jump = 0
  const { ready, listener } = open(t, relay, 'quic', {
    endpoint,
    fallback: true,
    grpcPort: relay.grpcPort,
    transports: {
      grpc: TRANSPORTS.grpc,
      quic: {
        form: hasty.form,
        dial: (target, handlers) =>
          isBlocked
            ? hasty.dial({ ...target, host: '127.0.0.1', port: hole.address().port }, handlers)
            : TRANSPORTS.quic.dial(target, handlers),
      },
    },
    now: () => Date.now() + jump,
  })
  await ready
  assert.equal(listener.infos[0]?.way, 'grpc')
  isBlocked = false
  // The probe is due now; the next ping of the relay, or one to it, is when that is seen.
  jump = 61_000
  await listener.until(() => listener.infos.length === 2)
  assert.equal(listener.infos[1]?.way, 'quic')
  assert.deepEqual(listener.losses, [])
})

test('a new certificate: sessions by gRPC stay, those by QUIC end and come back', TIMEOUT, async (t) => {
  const relay = await startRelay(t, 'quic')
  const [quic, grpc] = [open(t, relay, 'quic'), open(t, relay, 'grpc')]
  await Promise.all([quic.ready, grpc.ready])
  await relay.renew()
  await quic.listener.until(() => quic.listener.infos.length === 2)
  await call(grpc.session, { case: 'resume', value: create(ResumeRequestSchema, {}) })
  assert.deepEqual([quic.listener.losses.length, grpc.listener.losses.length], [1, 0])
})

void test('a profile with a clock sends nothing over a transport without one', TIMEOUT, async (t) => {
  const relay = await startRelay(t, 'grpc')
  const written: number[] = []
  const unclocked: Transport = {
    form: TRANSPORTS.grpc.form,
    dial: async (target, handlers) => {
      const stream = await TRANSPORTS.grpc.dial(target, handlers)
      return { write: (cells) => void written.push(cells.length), end: () => stream.end() }
    },
  }
  const { ready } = open(t, relay, 'grpc', { transports: { grpc: unclocked }, traffic: 'strict' })
  await assert.rejects(ready, { message: /^This traffic profile needs a clocked transport/ })
  assert.deepEqual(written, [])
})
