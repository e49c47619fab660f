/** Streams that a proxy opens for unary calls. The proxy says so in its hello: agents behind it cannot. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { create } from '@bufbuild/protobuf'
import { REVISION } from '@static/protocol'
import { type ClientMessage, ClientMessageSchema, CloseReason } from '@static/protocol/relay'
import { Agent, makeKey, refusal, type ServerBody } from '@static/testkit/agent'
import { type MemoryRelay, openMemoryRelay } from '../support/memory-relay.ts'
import { UnaryAgent } from '../support/unary.ts'

const ADDRESS = new Uint8Array([198, 51, 100, 7])
/** Of an address, without anything to gain by waiting. */
const RATES = { openingsPerSecond: 1, openingsBurst: 1, callsPerSecond: 1, callsBurst: 3 }

/** A stream of a proxy, before its hello. */
function dialled(world: MemoryRelay): Promise<Agent> {
  return Agent.dial(world.transport.wire('cbor', '192.0.2.9', true), makeKey())
}

/** A stream of a proxy that the relay has accepted. */
async function stream(world: MemoryRelay, call: boolean): Promise<Agent> {
  const proxy = await dialled(world)
  await proxy.request('proxyHello', { revision: REVISION, agentAddress: ADDRESS, call })
  return proxy
}

/** The last word on a stream of a proxy that the relay refuses. */
async function refused(world: MemoryRelay, call: boolean): Promise<ServerBody | undefined> {
  const proxy = await dialled(world)
  proxy.request('proxyHello', { revision: REVISION, agentAddress: ADDRESS, call }).catch(() => {})
  await proxy.ended
  return proxy.pushes.at(-1)?.body
}

function withToken(token: string, body: ClientMessage['body']): ClientMessage {
  return create(ClientMessageSchema, { sessionToken: token, body })
}

test('calls through a proxy count as calls of their agent, and one too many is answered with the reason', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: RATES } })
  for (let count = 0; count < RATES.callsBurst; count++) {
    const proxy = await stream(world, true)
    await proxy.request('getChallenge', { revision: REVISION })
    proxy.close()
  }
  const answer = await refused(world, true)
  assert.equal(answer?.case === 'error' && answer.value.code, 'rate_limited')
  // None of them was the opening of a session. A proxy that says nothing of calls opens nothing else.
  await stream(world, false)
  const closing = await refused(world, false)
  assert.ok(closing?.case === 'sessionClosing')
  assert.deepEqual([closing.value.reason, closing.value.error?.code], [CloseReason.SHUTDOWN, 'rate_limited'])
})

test('a stream for a call carries one request', async (t) => {
  const world = await openMemoryRelay(t)
  const unary = new UnaryAgent(world)
  await unary.open(world.api.token('acme'))
  const proxy = await stream(world, true)
  const channelId = randomBytes(16)
  const founding = { name: 'acme/x/y', channelId, welcome: randomBytes(64) }
  const body = create(ClientMessageSchema, { body: { case: 'createChannel', value: founding } }).body
  const first = proxy.raw(withToken(unary.token, body))
  const second = proxy.raw(withToken(unary.token, body))
  assert.equal((await first).case, 'createChannel')
  for (const answer of [await second, await proxy.raw(withToken(unary.token, body))]) {
    assert.equal(answer.case === 'error' && answer.value.code, 'invalid_request')
  }
})

test('a stream for a call cannot have a session', async (t) => {
  const world = await openMemoryRelay(t)
  const opener = await stream(world, true)
  const challenge = await (await stream(world, true)).request('getChallenge', { revision: REVISION })
  const opening = opener.request('openSession', opener.answer('session', challenge, ''))
  await assert.rejects(opening, refusal('invalid_request', /`purpose` must be SESSION on a session stream/))

  const unary = new UnaryAgent(world)
  await unary.open(world.api.token('acme'))
  const resume = create(ClientMessageSchema, { body: { case: 'resume', value: {} } }).body
  assert.equal((await (await stream(world, true)).raw(withToken(unary.token, resume))).case, 'resume')
  assert.equal(world.driver.counts.sessions, 0)
  assert.equal((await (await stream(world, false)).raw(withToken(unary.token, resume))).case, 'resume')
  assert.equal(world.driver.counts.sessions, 1, 'a subscription is a session')

  const acknowledging = await stream(world, true)
  acknowledging.ack(randomBytes(16), 1n)
  await acknowledging.ended
})

test('a stream for a call that makes none is closed in time', async (t) => {
  const world = await openMemoryRelay(t)
  await stream(world, true)
  await world.advance(10_000)
  assert.equal(world.driver.counts.streams, 0)
})
