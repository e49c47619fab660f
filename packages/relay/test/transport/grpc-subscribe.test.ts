import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { Code, ConnectError, createClient, type Transport } from '@connectrpc/connect'
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-node'
import { ERROR_METADATA, ERRORS, frameMessage, SESSION_METADATA } from '@static/protocol'
import { Relay, type ServerMessage, ServerMessageSchema } from '@static/protocol/relay'
import type { GrpcStatus } from '@static/testkit/agent/grpc-client'
import { type FakeSubscription, type GrpcBench, startGrpcBench } from '../support/grpc-fakes.ts'

const TOKEN = { [SESSION_METADATA]: 'token' }

function delivery(index: number, bytes = 100): ServerMessage {
  const value = { index: BigInt(index), ciphertext: new Uint8Array(bytes) }
  return create(ServerMessageSchema, { body: { case: 'deliverMessage', value } })
}

function indexOf({ body }: ServerMessage): number {
  return body.case === 'deliverMessage' ? Number(body.value.index) : -1
}

async function firstSubscription(bench: GrpcBench): Promise<FakeSubscription> {
  await bench.calls.subscribed.reaches(1)
  return bench.calls.subscriptions[0]!
}

/** Pushes as long as the reader keeps up, `count` messages in all. */
async function pushAll({ sink, rooms }: FakeSubscription, count: number, bytes: number): Promise<number> {
  let most = 0
  for (let index = 1, run = 1; index <= count; index++, run++) {
    const before = rooms.value
    if (sink.write(delivery(index, bytes))) continue
    most = Math.max(most, run)
    run = 0
    if (index < count) await rooms.reaches(before + 1)
  }
  return most
}

/** The ways of browsers. */
const WEB: Record<string, (bench: GrpcBench) => Transport> = {
  connect: (bench) => createConnectTransport({ ...target(bench), httpVersion: '2' }),
  'connect over HTTP/1.1': (bench) => createConnectTransport({ ...target(bench), httpVersion: '1.1' }),
  'connect in JSON': (bench) => createConnectTransport({ ...target(bench), httpVersion: '2', useBinaryFormat: false }),
  'grpc-web': (bench) => createGrpcWebTransport({ ...target(bench), httpVersion: '1.1' }),
}

function target(bench: GrpcBench): { baseUrl: string; nodeOptions: { ca: string } } {
  return { baseUrl: `https://localhost:${bench.transport.port}`, nodeOptions: { ca: bench.ca } }
}

test('pushes arrive in order at the pace of the reader, over native gRPC', async () => {
  await using bench = await startGrpcBench()
  const client = await bench.connect()
  const got: number[] = []
  const { promise: closed, resolve } = Promise.withResolvers<GrpcStatus>()
  const channelIds = [new Uint8Array(16).fill(7)]
  client.subscribe({ channelIds }, { message: (message) => got.push(indexOf(message)), closed: resolve }, TOKEN)
  const subscription = await firstSubscription(bench)
  const { sessionToken, body } = subscription.message
  assert.equal(sessionToken, 'token')
  assert.ok(body.case === 'resume')
  assert.deepEqual(
    body.value.channelIds.map((id) => [...id]),
    [[...channelIds[0]!]],
  )
  const most = await pushAll(subscription, 300, 10_000)
  assert.ok(most < 20 && subscription.rooms.value > 10, `${most} messages without a stop`)
  subscription.sink.end()
  assert.equal((await closed).code, 0)
  assert.deepEqual(
    got,
    Array.from({ length: 300 }, (_, at) => at + 1),
  )
  assert.equal(subscription.closes.value, 0)
})

test('pushes arrive in order at the pace of the reader, over Connect and gRPC-Web', async () => {
  for (const [protocol, transport] of Object.entries(WEB)) {
    await using bench = await startGrpcBench()
    const relay = createClient(Relay, transport(bench))
    const got: number[] = []
    const reading = (async () => {
      for await (const message of relay.subscribe({}, { headers: TOKEN })) got.push(indexOf(message))
    })()
    const subscription = await firstSubscription(bench)
    assert.equal(subscription.message.sessionToken, 'token', protocol)
    const most = await pushAll(subscription, 100, 10_000)
    assert.ok(most < 20 && subscription.rooms.value > 10, `${protocol}: ${most} messages without a stop`)
    subscription.sink.end()
    await reading
    assert.deepEqual(
      got,
      Array.from({ length: 100 }, (_, at) => at + 1),
      protocol,
    )
    assert.equal(subscription.closes.value, 0, protocol)
  }
})

test('a reader that disconnects ends the subscription, in every protocol, and is not a failure', async () => {
  for (const [protocol, transport] of Object.entries(WEB)) {
    const bench = await startGrpcBench()
    const gone = new AbortController()
    const relay = createClient(Relay, transport(bench))
    const reading = relay.subscribe({}, { headers: TOKEN, signal: gone.signal })[Symbol.asyncIterator]()
    const first = reading.next()
    const subscription = await firstSubscription(bench)
    subscription.sink.write(delivery(1))
    await first
    gone.abort()
    await assert.rejects(reading.next(), { code: Code.Canceled })
    await subscription.closes.reaches(1)
    assert.equal(subscription.closes.value, 1, protocol)
    await bench[Symbol.asyncDispose]()
    assert.deepEqual(bench.failures, [], protocol)
  }
  await using bench = await startGrpcBench()
  const mine = (await bench.connect()).subscribe({}, { message: () => {}, closed: () => {} })
  const subscription = await firstSubscription(bench)
  mine.cancel()
  await subscription.closes.reaches(1)
})

test('a refused subscription ends with the status of its error and all details', async () => {
  await using bench = await startGrpcBench()
  const refusal = create(ServerMessageSchema, {
    requestId: 1n,
    body: { case: 'error', value: { code: 'auth_failed', message: 'The token has run out.' } },
  })
  const subscribe = bench.calls.subscribe.bind(bench.calls)
  bench.calls.subscribe = (peer, message, sink) => {
    sink.write(refusal)
    sink.end()
    return subscribe(peer, message, sink)
  }
  const client = await bench.connect()
  const status = await new Promise<GrpcStatus>((closed) => client.subscribe({}, { message: () => {}, closed }))
  assert.equal(status.code, ERRORS.auth_failed.grpc)
  assert.equal(status.message, 'The token has run out.')
  assert.ok(status.metadata[ERROR_METADATA])
  for (const [protocol, transport] of Object.entries(WEB)) {
    const reading = createClient(Relay, transport(bench)).subscribe({})[Symbol.asyncIterator]()
    const error = ConnectError.from(
      await reading.next().then(
        () => assert.fail('accepted'),
        (error: unknown) => error,
      ),
    )
    assert.equal(error.code, ERRORS.auth_failed.grpc, protocol)
    assert.ok(error.metadata.get(ERROR_METADATA), protocol)
  }
})

test('a handler that ignores the reader is limited by the buffer', async () => {
  await using bench = await startGrpcBench({ limits: { unsentBytes: 300_000, closeMs: 50 } })
  const client = await bench.connect()
  const { promise: closed, resolve } = Promise.withResolvers<GrpcStatus>()
  const mine = client.subscribe({}, { message: () => {}, closed: resolve })
  mine.raw.pause()
  const native = await firstSubscription(bench)
  for (let index = 1; index < 50; index++) native.sink.write(delivery(index, 10_000))
  assert.equal((await closed).code, -1)
  await native.closes.reaches(1)

  const reading = createClient(Relay, WEB['connect']!(bench)).subscribe({})[Symbol.asyncIterator]()
  const first = reading.next()
  await bench.calls.subscribed.reaches(2)
  const web = bench.calls.subscriptions[1]!
  for (let index = 1; index < 50; index++) web.sink.write(delivery(index, 10_000))
  await assert.rejects(first, { code: Code.ResourceExhausted })
  await web.closes.reaches(1)
})

test('requests that are not a subscription are refused', async () => {
  await using bench = await startGrpcBench()
  const client = await bench.connect()
  const bodies: [bytes: Uint8Array, code: number][] = [
    [Buffer.alloc(0), Code.InvalidArgument],
    [Buffer.of(0, 0, 0, 0, 9), Code.InvalidArgument],
    [Buffer.concat([frameMessage(new Uint8Array()), frameMessage(new Uint8Array())]), Code.InvalidArgument],
    [frameMessage(Uint8Array.of(0x0b)), Code.InvalidArgument],
    [frameMessage(new Uint8Array(70_000)), Code.ResourceExhausted],
    [Buffer.of(1, 0, 0, 0, 0), Code.Unimplemented],
  ]
  for (const [bytes, code] of bodies) {
    const raw = client.request('/static.relay.v1.Relay/Subscribe', { 'content-type': 'application/grpc' })
    const status = new Promise<unknown>((resolve) => raw.on('response', (headers) => resolve(headers['grpc-status'])))
    raw.end(bytes)
    assert.equal(Number(await status), code)
    raw.resume()
  }
  assert.equal(bench.calls.subscriptions.length, 0)
})
