/** What the port holds for callers that do not finish their requests, or do not read their answers. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import { test } from 'node:test'
import { create, toBinary, toJson } from '@bufbuild/protobuf'
import { frameMessage } from '@static/protocol'
import {
  AckRequestSchema,
  GetChallengeRequestSchema,
  GetChallengeResponseSchema,
  ServerMessageSchema,
  SubscribeRequestSchema,
} from '@static/protocol/relay'
import { connectGrpc, type GrpcClient } from '@static/testkit/agent/grpc-client'
import { CALL_BYTES } from '../../src/transport/http2/budget.ts'
import { type AnswerBody, type GrpcBench, STRANGER, startGrpcBench } from '../support/grpc-fakes.ts'
import { Gauge } from '../support/grpc-gauge.ts'
import { ask } from '../support/grpc-http.ts'

const RESOURCE_EXHAUSTED = '8'

/** Subscribes with a body of so many bytes that are no valid message; a byte is missing if it is to be held. */
function subscribe(client: GrpcClient, token: string, bytes: number): ClientHttp2Stream {
  const stream = client.request('/static.relay.v1.Relay/Subscribe', {
    'content-type': 'application/grpc',
    'static-session': token,
  })
  stream.on('error', () => {})
  stream.write(frameMessage(new Uint8Array(bytes)).subarray(0, -1))
  return stream.resume()
}

/** The status of a call that is refused. */
async function statusOf(stream: ClientHttp2Stream): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  stream.once('response', (headers) => resolve(headers['grpc-status']))
  stream.once('close', () => reject(new Error('The stream was closed without a status.')))
  return promise
}

test('bodies of native subscriptions count towards the budget of an address, and are released', async () => {
  await using bench = await startGrpcBench({ limits: { bodyBytesPerAddress: 170_000 } })
  const client = await bench.connect()
  const holding = subscribe(client, 'token', 60_000)
  const endsSoonWith = async (status: string): Promise<void> => {
    for (let tries = 0; tries < 200; tries++) {
      const next = subscribe(client, 'token', 60_000)
      next.end('x')
      if ((await statusOf(next)) === status) return
    }
    assert.fail(`never ${status}`)
  }
  await endsSoonWith(RESOURCE_EXHAUSTED)
  holding.close(constants.NGHTTP2_CANCEL)
  // Read whole, and found to be no request: what it held is given back each time.
  for (let round = 0; round < 5; round++) await endsSoonWith('3')
})

test('a native subscription of a stranger may be as long as any of its requests, and no longer', async () => {
  await using bench = await startGrpcBench()
  const client = await bench.connect()
  assert.equal(await statusOf(subscribe(client, STRANGER, 8200)), RESOURCE_EXHAUSTED)
  const short = subscribe(client, STRANGER, 8000)
  short.end('x')
  assert.equal(await statusOf(short), '3')
  const known = subscribe(client, 'token', 60_000)
  known.end('x')
  assert.equal(await statusOf(known), '3')
})

/** The most calls without bytes that one address may hold. */
const MOST_CALLS = 8
const LIMITS = { bodyBytesPerAddress: MOST_CALLS * CALL_BYTES, bodyMs: 600_000, closeMs: 600_000 }
const CALLS = 40
const PATH = '/static.relay.v1.Relay/GetChallenge'

async function benchOfChallenges(): Promise<GrpcBench> {
  const bench = await startGrpcBench({ limits: LIMITS })
  bench.calls.answer = () => ({ case: 'getChallenge', value: {} })
  return bench
}

function refuseSubscriptions({ calls }: GrpcBench): void {
  calls.subscribe = (_peer, _message, sink) => {
    sink.write(create(ServerMessageSchema, { body: { case: 'error', value: { code: 'auth_failed' } } }))
    return { room: () => {}, close: () => {} }
  }
}

/** A connection that takes no bytes of any answer. */
async function deafConnection({ transport, ca }: GrpcBench): Promise<Disposable & { session: ClientHttp2Session }> {
  const session = connect(`https://localhost:${transport.port}`, { ca, settings: { initialWindowSize: 0 } })
  session.on('error', () => {})
  await once(session, 'remoteSettings')
  return { session, [Symbol.dispose]: () => session.destroy() }
}

/** Calls that are made at once: how many began to be answered, how many are over, and with which codes. */
class Burst {
  readonly answered: Gauge = new Gauge()
  readonly closed: Gauge = new Gauge()
  readonly codes: (number | undefined)[] = []

  constructor(session: ClientHttp2Session, count: number, headers: Record<string, string>, body: string | Uint8Array) {
    for (let call = 0; call < count; call++) {
      const stream = session.request(
        { ':method': 'POST', te: 'trailers', ...headers },
        { endStream: body.length === 0 },
      )
      stream.on('error', () => {})
      stream.on('response', () => this.answered.add(1))
      stream.resume()
      stream.on('close', () => {
        this.codes.push(stream.rstCode)
        this.closed.add(1)
      })
      if (body.length > 0) stream.end(body)
    }
  }

  /** Resolves when as many calls are answered and not read as may be, and all others were cut off. */
  async holds(most: number): Promise<void> {
    await Promise.race([this.closed.reaches(CALLS - most), this.answered.reaches(most + 1)])
    await this.answered.reaches(most)
    assert.deepEqual([this.closed.value, this.answered.value], [CALLS - most, most])
    assert.deepEqual(new Set(this.codes), new Set([constants.NGHTTP2_ENHANCE_YOUR_CALM]))
  }
}

const EMPTY = frameMessage(new Uint8Array())
const SUBSCRIBE = '/static.relay.v1.Relay/Subscribe'
type Form = readonly [headers: Record<string, string>, body: string | Uint8Array]
const KNOWN = { 'static-session': 'token' }
const GRPC: Form = [{ ':path': PATH, 'content-type': 'application/grpc' }, EMPTY]
/** Calls whose answers have bytes: these take the place of one more call. */
const CALL_FORMS: Record<string, Form> = {
  gRPC: GRPC,
  'gRPC of an agent that is known': [{ ...GRPC[0], ...KNOWN }, EMPTY],
  'gRPC-Web': [{ ':path': PATH, 'content-type': 'application/grpc-web+proto' }, EMPTY],
  Connect: [{ ':path': PATH, 'content-type': 'application/json' }, '{}'],
  'the health service': [{ ':path': '/grpc.health.v1.Health/Check', 'content-type': 'application/json' }, '{}'],
  'a body that is no request': [{ ':path': PATH, 'content-type': 'application/json' }, '['],
  'a refused subscription': [
    { ':path': SUBSCRIBE, 'content-type': 'application/connect+json' },
    frameMessage(Buffer.from('{}')),
  ],
}

for (const [form, [headers, body]] of Object.entries(CALL_FORMS)) {
  test(`answers that are not read are few for each address: ${form}`, { timeout: 300_000 }, async () => {
    await using bench = await benchOfChallenges()
    refuseSubscriptions(bench)
    using deaf = await deafConnection(bench)
    const burst = new Burst(deaf.session, CALLS, headers, body)
    const most = MOST_CALLS - 1
    await burst.holds(most)
    // Others are served, and so is this address once it reads: what it was given before is still there.
    const other = { host: '127.0.0.1', port: bench.transport.port, ca: bench.ca, localAddress: '127.0.0.2' }
    const client = await connectGrpc(other)
    await client.unary('GetChallenge', GetChallengeRequestSchema, {}, GetChallengeResponseSchema)
    await client.close()
    deaf.session.settings({ initialWindowSize: 65_535 })
    await burst.closed.reaches(CALLS)
    assert.equal(burst.codes.filter((code) => code === constants.NGHTTP2_NO_ERROR).length, most)
    assert.equal((await ask(bench, '2', 'POST', PATH, { 'content-type': 'application/json' }, '{}')).status, 200)
    assert.deepEqual(bench.failures, [])
  })
}

test('refusals of native subscriptions that are not read are few for each address', { timeout: 300_000 }, async () => {
  await using bench = await benchOfChallenges()
  refuseSubscriptions(bench)
  using deaf = await deafConnection(bench)
  const burst = new Burst(deaf.session, CALLS, { ':path': SUBSCRIBE, 'content-type': 'application/grpc' }, EMPTY)
  await burst.closed.reaches(CALLS - MOST_CALLS)
})

test('answers on unknown paths that are not read are few for each address', { timeout: 300_000 }, async () => {
  await using bench = await benchOfChallenges()
  using deaf = await deafConnection(bench)
  const burst = new Burst(deaf.session, CALLS, { ':path': '/nowhere' }, '{}')
  await burst.holds(MOST_CALLS)
})

test('answers that are not read count by their bytes', { timeout: 300_000 }, async () => {
  await using bench = await startGrpcBench({ limits: { ...LIMITS, bodyBytesPerAddress: 1 << 20 } })
  bench.calls.answer = () => ({ case: 'createChannel', value: { welcome: new Uint8Array(200_000) } })
  using deaf = await deafConnection(bench)
  const headers = { ':path': '/static.relay.v1.Relay/CreateChannel', 'content-type': 'application/grpc' }
  const burst = new Burst(deaf.session, CALLS, headers, EMPTY)
  await burst.holds(4)
})

test(
  'health checks beyond the limit are answered, with nothing that can be left unread',
  { timeout: 300_000 },
  async () => {
    await using bench = await benchOfChallenges()
    using deaf = await deafConnection(bench)
    const burst = new Burst(deaf.session, CALLS, { ':method': 'GET', ':path': '/health' }, '')
    await burst.closed.reaches(CALLS - MOST_CALLS)
    await burst.answered.reaches(CALLS)
    assert.deepEqual([burst.closed.value, new Set(burst.codes)], [CALLS - MOST_CALLS, new Set([0])])
  },
)

test('calls of strangers count while they are pending', { timeout: 300_000 }, async () => {
  await using bench = await benchOfChallenges()
  bench.calls.answer = () => new Promise(() => {})
  using deaf = await deafConnection(bench)
  const burst = new Burst(deaf.session, CALLS, ...GRPC)
  await Promise.race([burst.closed.reaches(CALLS - MOST_CALLS), bench.calls.called.reaches(MOST_CALLS + 1)])
  assert.ok(bench.calls.called.value <= MOST_CALLS, `${bench.calls.called.value} calls wait`)
})

const POSITIONS = Array.from({ length: 1000 }, () => ({ channelId: new Uint8Array(16).fill(1), index: 1n }))
const ACK = create(AckRequestSchema, { positions: POSITIONS })
/** An Ack that takes nine times as much memory as its bytes. */
const LONG_ACKS: Record<string, Form> = {
  gRPC: [{ 'content-type': 'application/grpc' }, frameMessage(toBinary(AckRequestSchema, ACK))],
  Connect: [{ 'content-type': 'application/json' }, JSON.stringify(toJson(AckRequestSchema, ACK))],
}

for (const [form, [headers, body]] of Object.entries(LONG_ACKS)) {
  test(`calls that wait count for what they take in memory: ${form}`, { timeout: 300_000 }, async () => {
    const most = 4
    await using bench = await startGrpcBench({ limits: { ...LIMITS, bodyBytesPerAddress: most * 256 * 1024 } })
    const { promise, resolve } = Promise.withResolvers<AnswerBody>()
    bench.calls.answer = () => promise
    const client = await bench.connect()
    const all = { ':path': '/static.relay.v1.Relay/Ack', ...headers, ...KNOWN }
    const burst = new Burst(client.session, CALLS, all, body)
    await Promise.race([burst.closed.reaches(CALLS - most), bench.calls.called.reaches(most + 1)])
    const waiting = bench.calls.called.value
    resolve({ case: 'ack', value: {} })
    await burst.closed.reaches(CALLS)
    assert.ok(waiting > 0 && waiting <= most, `${waiting} calls wait`)
  })
}

test('long requests are decoded in their turn, and messages at once', { timeout: 300_000 }, async () => {
  await using bench = await startGrpcBench()
  const client = await bench.connect()
  const { promise, resolve } = Promise.withResolvers<void>()
  bench.calls.nextTurn = promise
  // Malformed: it is refused as soon as it is decoded.
  const body = frameMessage(new Uint8Array(10_000))
  const headers = { 'content-type': 'application/grpc', ...KNOWN }
  const waiting = new Burst(client.session, 1, { ':path': '/static.relay.v1.Relay/Ack', ...headers }, body)
  const message = new Burst(client.session, 1, { ':path': '/static.relay.v1.Relay/SendMessage', ...headers }, body)
  await message.closed.reaches(1)
  assert.equal(waiting.answered.value, 0)
  resolve()
  await waiting.closed.reaches(1)
})

test('native subscriptions count for their requests until they are answered', { timeout: 300_000 }, async () => {
  await using bench = await startGrpcBench({ limits: { ...LIMITS, bodyBytesPerAddress: 512 * 1024 } })
  const client = await bench.connect()
  const channelIds = Array.from({ length: 2000 }, () => new Uint8Array(16))
  const body = frameMessage(toBinary(SubscribeRequestSchema, create(SubscribeRequestSchema, { channelIds })))
  const headers = { ':path': SUBSCRIBE, 'content-type': 'application/grpc', ...KNOWN }
  const next = async (): Promise<Burst> => {
    const burst = new Burst(client.session, 1, headers, body)
    await burst.answered.reaches(1)
    return burst
  }
  await next()
  assert.equal(bench.calls.subscribed.value, 1)
  const refused = await next()
  await Promise.race([refused.closed.reaches(1), bench.calls.subscribed.reaches(2)])
  assert.equal(bench.calls.subscribed.value, 1, 'there is no room for another one that waits')
  bench.calls.subscriptions[0]?.sink.write(create(ServerMessageSchema, { body: { case: 'resume', value: {} } }))
  await next()
  assert.equal(bench.calls.subscribed.value, 2)
})

test('many calls can be made at once, and wait, by agents that read their answers', { timeout: 300_000 }, async () => {
  await using bench = await startGrpcBench({ limits: { ...LIMITS, bodyBytesPerAddress: 16 * CALL_BYTES } })
  const client = await bench.connect()
  const { promise, resolve } = Promise.withResolvers<void>()
  bench.calls.answer = async () => {
    await promise
    return { case: 'getChallenge', value: {} }
  }
  const burst = new Burst(client.session, CALLS, { ...GRPC[0], ...KNOWN }, EMPTY)
  await Promise.race([bench.calls.called.reaches(CALLS), burst.closed.reaches(1)])
  resolve()
  await burst.closed.reaches(CALLS)
  assert.deepEqual(burst.codes, Array<number>(CALLS).fill(0))
})
