/** What a stand-alone proxy tells the relay about its streams, and what its agents hear of the relay's refusals. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { CellJoiner, cutEnvelope, REVISION, StaticError } from '@static/protocol'
import { decodeEnvelope, encodeEnvelope } from '@static/protocol/envelope'
import {
  type ClientMessage,
  ClientMessageSchema,
  CloseReason,
  GetChallengeRequestSchema,
  GetChallengeResponseSchema,
  ServerMessageSchema,
} from '@static/protocol/relay'
import { GrpcFailure } from '@static/testkit/agent/grpc-client'
import { startTestRelay } from '@static/testkit/relay'
import type { Peer, Transport } from '../../src/ports.ts'
import { ProxyCalls } from '../../src/proxy/calls.ts'
import { ProxySessions } from '../../src/proxy/sessions.ts'
import type { Upstream, UpstreamHandlers } from '../../src/proxy/upstream.ts'

const PORTS = { grpc: 1, files: 0, filesUrl: '' }
const PEER: Peer = { transport: 'grpc', form: 'protobuf', address: '198.51.100.7', proxy: false }

/** A relay that the test speaks for: what came on the last stream, and what to send on it. */
class FakeUpstream implements Upstream {
  readonly received: ClientMessage[] = []
  retired = 0
  /** Called with each request after the hello. */
  onRequest: (() => void) | undefined
  #handlers: UpstreamHandlers | undefined

  open(handlers: UpstreamHandlers): ReturnType<Upstream['open']> {
    this.#handlers = handlers
    const joiner = new CellJoiner(1_000_000)
    return Promise.resolve({
      write: (bytes) =>
        joiner.push(bytes, ({ payload }) => {
          this.received.push(decodeEnvelope('cbor', ClientMessageSchema, payload, payload.length))
          if (this.received.length > 1) this.onRequest?.()
        }),
      end: () => {},
      bufferedBytes: 0,
      retire: () => {
        this.retired++
      },
    })
  }

  send(message: MessageInitShape<typeof ServerMessageSchema>): void {
    const envelope = encodeEnvelope('cbor', ServerMessageSchema, create(ServerMessageSchema, message))
    this.#handlers?.data(cutEnvelope(envelope))
  }

  /** Whether the hello of the last stream says that it is for a call. */
  get isForCall(): boolean | undefined {
    const body = this.received[0]?.body
    return body?.case === 'proxyHello' ? body.value.call : undefined
  }
}

function unexpected(error: unknown): void {
  throw error
}

const CHALLENGE = create(ClientMessageSchema, {
  requestId: 5n,
  body: { case: 'getChallenge', value: { revision: REVISION } },
})
/** As a relay says to who opens too much, and as one says that stops. */
const BUSY = { reason: CloseReason.SHUTDOWN, error: { code: 'rate_limited', message: 'Too many.', retryAfterMs: 7 } }

void test('a proxy marks the streams of unary calls, and no others', async () => {
  const upstream = new FakeUpstream()
  const calls = new ProxyCalls(upstream, () => PORTS, unexpected)
  upstream.onRequest = () => upstream.send({ requestId: 5n, body: { case: 'getChallenge', value: {} } })
  assert.equal((await calls.call(PEER, CHALLENGE)).body.case, 'getChallenge')
  assert.equal(upstream.isForCall, true)

  const pushing = new FakeUpstream()
  const { promise, resolve } = Promise.withResolvers<void>()
  pushing.onRequest = resolve
  const resume = create(ClientMessageSchema, { requestId: 1n, body: { case: 'resume', value: {} } })
  new ProxyCalls(pushing, () => PORTS, unexpected).subscribe(PEER, resume, { write: () => true, end: () => {} })
  await promise
  assert.equal(pushing.isForCall, false)
})

void test('a call on a stream that the relay closes is answered with the reason', async () => {
  const upstream = new FakeUpstream()
  const calls = new ProxyCalls(upstream, () => PORTS, unexpected)
  upstream.onRequest = () => upstream.send({ body: { case: 'sessionClosing', value: BUSY } })
  const { body, requestId } = await calls.call(PEER, CHALLENGE)
  assert.ok(body.case === 'error')
  assert.deepEqual([requestId, body.value.code, body.value.retryAfterMs], [5n, 'rate_limited', 7])

  upstream.onRequest = () =>
    upstream.send({ body: { case: 'sessionClosing', value: { reason: CloseReason.SHUTDOWN } } })
  const { body: bare } = await calls.call(PEER, CHALLENGE)
  assert.equal(bare.case === 'error' && bare.value.code, 'unavailable')
})

void test('a proxy leaves a node that ends sessions, not one that does not let an agent in', async () => {
  for (const isOpen of [false, true]) {
    const upstream = new FakeUpstream()
    const transport: Transport = { write: () => {}, pace: () => {}, end: () => {}, stop: () => Promise.resolve() }
    const sessions = new ProxySessions(upstream, () => PORTS, unexpected).streams(() => transport)
    const id = sessions.opened(PEER)
    assert.ok(id !== undefined)
    sessions.received(id, cutEnvelope(encodeEnvelope('protobuf', ClientMessageSchema, CHALLENGE)))
    const { promise, resolve } = Promise.withResolvers<void>()
    upstream.onRequest = resolve
    await promise
    assert.equal(upstream.isForCall, false)
    if (isOpen) upstream.send({ requestId: 6n, body: { case: 'openSession', value: {} } })
    upstream.send({ body: { case: 'sessionClosing', value: BUSY } })
    assert.equal(upstream.retired, isOpen ? 1 : 0)
    sessions.closed(id)
  }
})

void test('an agent behind a proxy cannot say what its stream is for', async () => {
  const upstream = new FakeUpstream()
  const errors: unknown[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  const transport: Transport = { write: () => {}, pace: () => {}, end: () => resolve(), stop: () => Promise.resolve() }
  const sessions = new ProxySessions(
    upstream,
    () => PORTS,
    (error) => errors.push(error),
  ).streams(() => transport)
  upstream.onRequest = resolve
  const id = sessions.opened(PEER)
  assert.ok(id !== undefined)
  const value = { revision: REVISION, agentAddress: Buffer.of(192, 0, 2, 1), call: true }
  const hello = create(ClientMessageSchema, { requestId: 1n, body: { case: 'proxyHello', value } })
  sessions.received(id, cutEnvelope(encodeEnvelope('protobuf', ClientMessageSchema, hello)))
  await promise
  assert.equal(upstream.received.length, 1)
  assert.equal(upstream.isForCall, false)
  assert.ok(errors[0] instanceof StaticError)
  assert.equal(errors[0].code, 'invalid_request')
})

for (const way of ['grpc', 'proxy'] as const) {
  void test(`by ${way}, unary calls have their own limit, and one too many is refused as such`, async (t) => {
    // The proxy's own greeting is an opening. The clock stands still, so that nothing is gained by waiting.
    const streams = { openingsPerSecond: 1, openingsBurst: 2, callsPerSecond: 1, callsBurst: 5 }
    const relay = await startTestRelay('proxy', { settings: { streams }, monotonic: () => 1_000_000, log: () => {} })
    t.after(() => relay.close())
    const client = await relay.grpc(way)
    t.after(() => client.close())
    const call = (): Promise<unknown> =>
      client.unary('GetChallenge', GetChallengeRequestSchema, { revision: REVISION }, GetChallengeResponseSchema)
    for (let count = 0; count < streams.callsBurst; count++) await call()
    await assert.rejects(call(), (error) => {
      assert.ok(error instanceof GrpcFailure)
      assert.equal(error.status.code, 8, 'RESOURCE_EXHAUSTED')
      assert.match(error.status.message, /makes more than .* calls a second/)
      return true
    })
  })
}
