import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Code, ConnectError, createClient, decodeBinaryHeader, type Transport } from '@connectrpc/connect'
import {
  compressionGzip,
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from '@connectrpc/connect-node'
import { create, equals } from '@bufbuild/protobuf'
import { ERROR_METADATA, ERRORS, SESSION_METADATA } from '@static/protocol'
import {
  ErrorSchema,
  GetChallengeRequestSchema,
  GetChallengeResponseSchema,
  Relay,
  SendMessageRequestSchema,
  SendMessageResponseSchema,
} from '@static/protocol/relay'
import type { GrpcFailure } from '@static/testkit/agent/grpc-client'
import { certificates } from '@static/testkit/certificates'
import { type FakeCalls, type GrpcBench, startGrpcBench, STRANGER } from '../support/grpc-fakes.ts'

/** The RPC library's clients of every protocol. */
function transports(bench: GrpcBench, more: object = {}): Record<string, Transport> {
  const options = { baseUrl: `https://localhost:${bench.transport.port}`, nodeOptions: { ca: bench.ca }, ...more }
  return {
    grpc: createGrpcTransport(options),
    'grpc-web': createGrpcWebTransport({ ...options, httpVersion: '2' }),
    'grpc-web over HTTP/1.1': createGrpcWebTransport({ ...options, httpVersion: '1.1' }),
    'grpc-web in JSON': createGrpcWebTransport({ ...options, httpVersion: '2', useBinaryFormat: false }),
    connect: createConnectTransport({ ...options, httpVersion: '2' }),
    'connect over HTTP/1.1': createConnectTransport({ ...options, httpVersion: '1.1' }),
    'connect in JSON': createConnectTransport({ ...options, httpVersion: '2', useBinaryFormat: false }),
  }
}

function answerSends({ ...calls }: Pick<FakeCalls, 'seen'>): FakeCalls['answer'] {
  return () => ({ case: 'sendMessage', value: { index: BigInt(calls.seen.length) } })
}

const asConnectError = (error: unknown): ConnectError => ConnectError.from(error)

/** The least that passes: DeleteChannel has to choose. */
function requestOf(method: string): object {
  return method === 'deleteChannel' ? { channel: { case: 'name', value: 'a/b/c' } } : {}
}

test('every unary method reaches the handler as its envelope, in every protocol', async () => {
  await using bench = await startGrpcBench()
  const methods = Object.values(Relay.method).filter(({ methodKind }) => methodKind === 'unary')
  assert.equal(methods.length, 25)
  bench.calls.answer = ({ body }) => ({ case: body.case, value: {} }) as never
  const [, ...others] = Object.entries(transports(bench))
  const client = await bench.connect()
  for (const { name, localName, input, output } of methods) {
    await client.unary(name, input, requestOf(localName), output)
    assert.equal(bench.calls.seen.at(-1)?.body.case, localName)
  }
  for (const [protocol, transport] of others) {
    const relay = createClient(Relay, transport) as unknown as Record<string, (input: object) => Promise<unknown>>
    for (const { localName } of methods) {
      await relay[localName]?.(requestOf(localName))
      assert.equal(bench.calls.seen.at(-1)?.body.case, localName, protocol)
      assert.equal(bench.calls.seen.at(-1)?.requestId, 1n)
    }
  }
})

test('the session token goes up as metadata, and a new one comes back', async () => {
  await using bench = await startGrpcBench()
  bench.calls.answer = answerSends(bench.calls)
  bench.calls.token = 'a-newer-one'
  for (const [protocol, transport] of Object.entries(transports(bench))) {
    let renewed: string | null = null
    await createClient(Relay, transport).sendMessage(
      { slot: 3n, ciphertext: Buffer.from('sealed') },
      {
        headers: { [SESSION_METADATA]: 'the-token' },
        onHeader: (headers) => (renewed = headers.get(SESSION_METADATA)),
      },
    )
    const { sessionToken, body } = bench.calls.seen.at(-1)!
    assert.equal(sessionToken, 'the-token', protocol)
    assert.equal(renewed, 'a-newer-one', protocol)
    assert.ok(body.case === 'sendMessage' && body.value.slot === 3n, protocol)
    assert.deepEqual(Buffer.from(body.value.ciphertext).toString(), 'sealed', protocol)
    assert.equal(bench.calls.peers.at(-1)?.address.replace('::1', '127.0.0.1'), '127.0.0.1')
  }
  bench.calls.token = undefined
  const { metadata } = await (
    await bench.connect()
  ).unary('SendMessage', SendMessageRequestSchema, {}, SendMessageResponseSchema)
  assert.equal(bench.calls.seen.at(-1)?.sessionToken, '')
  assert.equal(metadata[SESSION_METADATA], undefined)
})

test('a refusal keeps all its details in every protocol', async () => {
  await using bench = await startGrpcBench()
  const refusal = create(ErrorSchema, {
    code: 'epoch_mismatch',
    message: 'Der Kopf ist weiter: 100 %',
    retryAfterMs: 250,
    head: 77n,
    lastCounter: 2n ** 60n,
    lagging: [{ agentId: new Uint8Array(32).fill(0xfe), waiting: 7n }],
  })
  bench.calls.answer = () => ({ case: 'error', value: refusal })
  for (const [protocol, transport] of Object.entries(transports(bench))) {
    const error = await createClient(Relay, transport)
      .sendCommit({})
      .then(() => assert.fail('accepted'), asConnectError)
    assert.equal(error.code, ERRORS.epoch_mismatch.grpc, protocol)
    assert.equal(error.rawMessage, refusal.message, protocol)
    const details = decodeBinaryHeader(error.metadata.get(ERROR_METADATA) ?? '', ErrorSchema)
    assert.ok(equals(ErrorSchema, details, refusal), protocol)
  }
  const failure = await (
    await bench.connect()
  )
    .unary('SendMessage', SendMessageRequestSchema, {}, SendMessageResponseSchema)
    .then(
      () => assert.fail('accepted'),
      (error: GrpcFailure) => error,
    )
  assert.equal(failure.status.code, ERRORS.epoch_mismatch.grpc)
  assert.ok(failure.status.metadata[ERROR_METADATA])
})

test('with a token a call as large as the largest envelope passes, and no larger one', async () => {
  // The library's clients leave a stream half open when they are answered before they have said everything.
  await using bench = await startGrpcBench({ limits: { closeMs: 200 } })
  bench.calls.answer = ({ body }) => {
    assert.ok(body.case === 'sendMessage')
    return { case: 'sendMessage', value: { index: BigInt(body.value.ciphertext.length) } }
  }
  const headers = { [SESSION_METADATA]: 'token' }
  for (const [protocol, transport] of Object.entries(transports(bench))) {
    const relay = createClient(Relay, transport)
    const send = (bytes: number, options?: object): Promise<unknown> =>
      relay.sendMessage({ ciphertext: new Uint8Array(bytes) }, options).then(
        ({ index }) => Number(index),
        (error: unknown) => ConnectError.from(error).code,
      )
    const [most, tooMuch] = protocol.includes('JSON') ? [750_000, 800_000] : [4_194_304, 4_400_000]
    assert.equal(await send(most, { headers }), most, protocol)
    assert.equal(await send(tooMuch, { headers }), Code.ResourceExhausted, protocol)
    // Without a token, or with one that is none.
    for (const headers of [{}, { [SESSION_METADATA]: STRANGER }]) {
      assert.equal(await send(5000, { headers }), 5000, protocol)
      assert.equal(await send(10_000, { headers }), Code.ResourceExhausted, protocol)
    }
    const opening = relay.openSession({ jwt: 'x'.repeat(20_000) }, { headers })
    await assert.rejects(opening, { code: Code.ResourceExhausted }, protocol)
  }
  assert.deepEqual(bench.failures, [])
})

test('a short request that would decode into many objects is refused', async () => {
  await using bench = await startGrpcBench()
  const positions = Array.from({ length: 70_000 }, () => ({}))
  for (const [protocol, transport] of Object.entries(transports(bench))) {
    const call = createClient(Relay, transport).ack({ positions }, { headers: { [SESSION_METADATA]: 'token' } })
    await assert.rejects(call, { code: Code.InvalidArgument }, protocol)
  }
  assert.equal(bench.calls.seen.length, 0)
})

test('compressed requests are UNIMPLEMENTED, and responses are never compressed', async () => {
  await using bench = await startGrpcBench()
  const packed = { sendCompression: compressionGzip, compressMinBytes: 0, acceptCompression: [compressionGzip] }
  for (const [protocol, transport] of Object.entries(transports(bench, packed))) {
    const call = createClient(Relay, transport).getChallenge({ revision: 2 })
    await assert.rejects(call, { code: Code.Unimplemented }, protocol)
  }
})

test('a oneof that JSON leaves unset is refused', async () => {
  await using bench = await startGrpcBench()
  for (const [protocol, transport] of Object.entries(transports(bench))) {
    await assert.rejects(createClient(Relay, transport).deleteChannel({}), { code: Code.InvalidArgument }, protocol)
  }
  assert.equal(bench.calls.seen.length, 0)
})

test('a deadline ends the call even if the handler does not respond', async () => {
  await using bench = await startGrpcBench()
  bench.calls.answer = () => new Promise(() => {})
  for (const [protocol, transport] of Object.entries(transports(bench))) {
    const call = createClient(Relay, transport).getChallenge({}, { timeoutMs: 50 })
    await assert.rejects(call, { code: Code.DeadlineExceeded }, protocol)
  }
  const failure = await (
    await bench.connect()
  )
    .unary('GetChallenge', GetChallengeRequestSchema, {}, GetChallengeResponseSchema, { 'grpc-timeout': '20m' })
    .then(
      () => assert.fail('answered'),
      (error: GrpcFailure) => error,
    )
  assert.equal(failure.status.code, Code.DeadlineExceeded)
})

test('a failing handler does not reveal why', async () => {
  await using bench = await startGrpcBench()
  bench.calls.answer = () => Promise.reject(new Error('the store is at /secret/path'))
  for (const [protocol, transport] of Object.entries(transports(bench))) {
    const error = await createClient(Relay, transport)
      .getChallenge({})
      .then(() => assert.fail('answered'), asConnectError)
    assert.ok(error.code === Code.Internal || error.code === Code.Unavailable, protocol)
    assert.doesNotMatch(error.message, /secret/, protocol)
  }
})

test('unknown methods and services are UNIMPLEMENTED to gRPC and 404 to all', async () => {
  await using bench = await startGrpcBench()
  const client = await bench.connect()
  for (const method of ['Nothing', '/static.relay.v2.Relay/Ack']) {
    const failure = await client.unary(method, GetChallengeRequestSchema, {}, GetChallengeResponseSchema).then(
      () => assert.fail('answered'),
      (error: GrpcFailure) => error,
    )
    assert.equal(failure.status.code, Code.Unimplemented)
    assert.equal(String(failure.status.metadata[':status']), '404')
  }
})

test('a certificate from another authority is not trusted', async () => {
  await using bench = await startGrpcBench()
  const { certificate } = await certificates()
  const transport = createGrpcTransport({
    baseUrl: `https://localhost:${bench.transport.port}`,
    nodeOptions: { ca: certificate.cert },
  })
  await assert.rejects(createClient(Relay, transport).getChallenge({}), ConnectError)
})
