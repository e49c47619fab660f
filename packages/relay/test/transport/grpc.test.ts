import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { GetChallengeRequestSchema, GetChallengeResponseSchema } from '@static/protocol/relay'
import { LOOPBACKS } from '@static/testkit/ports'
import { startGrpcTransport } from '../../src/transport/grpc/transport.ts'
import type { GrpcStatus } from '@static/testkit/agent/grpc-client'
import { certificates } from '@static/testkit/certificates'
import { FakeCalls, FakeStreams, startGrpcBench } from '../support/grpc-fakes.ts'
import { ask } from '../support/grpc-http.ts'

test('localhost and the wildcard address cover IPv4 and IPv6 on one port', async () => {
  for (const host of ['localhost', '0.0.0.0', '::']) {
    await using bench = await startGrpcBench({ host })
    for (const address of LOOPBACKS) await bench.connect(address)
  }
  await using bench = await startGrpcBench({ host: '127.0.0.1' })
  await bench.connect('127.0.0.1')
  await assert.rejects(bench.connect('::1'))
})

test('a port in use is reported, and nothing is left open', { skip: LOOPBACKS.length < 2 }, async () => {
  await using bench = await startGrpcBench({ host: '::1' })
  const { certificate } = await certificates()
  const health = (): { ready: boolean; name: string; version: string } => ({ ready: true, name: '', version: '' })
  const open = (): Promise<unknown> =>
    startGrpcTransport(
      { host: 'localhost', port: bench.transport.port, certificate, origins: [], health },
      new FakeStreams(),
      new FakeCalls(),
    )
  await assert.rejects(open(), { code: 'connection_error' })
  await assert.rejects(open(), /in use by another program/)
  await assert.rejects(bench.connect('127.0.0.1'))
})

test('a stop lets calls finish, ends streams cleanly and frees the port', async () => {
  const bench = await startGrpcBench()
  const client = await bench.connect()
  const goaway = once(client.session, 'goaway')
  const { promise: sessionClosed, resolve: closeSession } = Promise.withResolvers<GrpcStatus>()
  const { promise: pushesClosed, resolve: closePushes } = Promise.withResolvers<GrpcStatus>()
  let bytes = 0
  client.openSession({ data: (cells) => void (bytes += cells.length), closed: closeSession })
  client.subscribe({}, { message: () => {}, closed: closePushes })
  await bench.streams.open.reaches(1)
  await bench.calls.subscribed.reaches(1)
  const { promise: answer, resolve: giveAnswer } = Promise.withResolvers<void>()
  const { promise: asked, resolve: tellAsked } = Promise.withResolvers<void>()
  bench.calls.answer = async () => {
    tellAsked()
    await answer
    return { case: 'getChallenge', value: { relayName: 'late' } }
  }
  const call = client.unary('GetChallenge', GetChallengeRequestSchema, {}, GetChallengeResponseSchema)
  await asked

  bench.transport.write([1], new Uint8Array(100 * 1024))
  const stopped = bench.transport.stop()
  assert.deepEqual([(await sessionClosed).code, (await pushesClosed).code, bytes], [0, 0, 100 * 1024])
  await goaway
  assert.equal(bench.streams.open.value, 0)
  await bench.calls.subscriptions[0]?.closes.reaches(1)
  await assert.rejects(bench.connect())
  giveAnswer()
  assert.equal((await call).message.relayName, 'late')
  await stopped
  await using again = await startGrpcBench({ port: bench.transport.port })
  assert.equal((await ask(again, '2', 'GET', '/health')).status, 200)
})

test('a stop is not delayed by streams that do not end', async () => {
  const bench = await startGrpcBench({ limits: { closeMs: 100 } })
  bench.calls.answer = () => new Promise(() => {})
  const client = await bench.connect()
  const call = client.unary('GetChallenge', GetChallengeRequestSchema, {}, GetChallengeResponseSchema)
  const http1 = ask(bench, '1.1', 'POST', '/static.relay.v1.Relay/Ack', { 'content-type': 'application/json' }, '{}')
  while (bench.calls.seen.length < 2) await new Promise((resolve) => setImmediate(resolve))
  const outcomes = Promise.allSettled([call, http1])
  await bench.transport.stop()
  assert.deepEqual(
    (await outcomes).map(({ status }) => status),
    ['rejected', 'rejected'],
  )
})
