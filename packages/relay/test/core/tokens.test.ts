/** Unary sessions: the token, how long it lives, and pushes by a subscription. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { REVISION } from '@static/protocol'
import { CloseReason, Purpose } from '@static/protocol/relay'
import { Agent, makeKey } from '@static/testkit/agent'
import { refusal } from '@static/testkit/agent'
import { type Pushes, UnaryAgent } from '../support/unary.ts'
import { openMemoryRelay, quiet, type MemoryRelay } from '../support/memory-relay.ts'

const MINUTE = 60_000

async function opened(world: MemoryRelay, jwt = world.api.token('acme')): Promise<UnaryAgent> {
  const agent = new UnaryAgent(world)
  await agent.open(jwt)
  return agent
}

function cases({ messages }: Pushes): (string | undefined)[] {
  return messages.map(({ body }) => body.case)
}

test('two calls return a token, which can do what a session can', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = new UnaryAgent(world)
  const answer = await agent.open(world.api.token('acme'))
  assert.deepEqual(answer.agentId, agent.key.id)
  assert.equal(answer.expiresInMs, 10 * MINUTE)
  const channelId = randomBytes(16)
  await agent.request('createChannel', { name: 'acme/x/y', channelId, welcome: randomBytes(64) })
  const sent = { channelId, slot: 0n, counter: 1n, messageId: randomBytes(16), ciphertext: randomBytes(64) }
  assert.equal((await agent.request('sendMessage', sent)).index, 1n)
  const { channels } = await agent.request('resume', {})
  assert.equal(channels[0]?.lastIndex, 1n)
  await agent.request('deleteChannel', { channel: { case: 'name', value: 'acme/x/y' } })
})

test('a guest also gets a token, and acts as a guest with it', async (t) => {
  const world = await openMemoryRelay(t)
  const guest = await opened(world, '')
  assert.deepEqual((await guest.request('resume', {})).channels, [])
  const founding = { name: 'acme/x/y', channelId: randomBytes(16), welcome: randomBytes(64) }
  await assert.rejects(guest.request('createChannel', founding), refusal('api_key_required'))
})

test('a call without a token, or with one that is altered, truncated or of another deployment, is auth_failed', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await opened(world)
  const stranger = await opened(await openMemoryRelay(t))
  const { token } = agent
  const [payload = '', mac = ''] = token.split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object
  const promoted = Buffer.from(JSON.stringify({ ...claims, s: 'other' })).toString('base64url')
  const bad = ['', '.', 'garbage', stranger.token, `${promoted}.${mac}`, `${payload}.`, `.${mac}`, payload, `${token}A`]
  for (let length = 0; length < token.length; length += 7) bad.push(token.slice(0, length))
  for (let at = 0; at < payload.length; at += 11) {
    bad.push(`${token.slice(0, at)}${token[at] === 'A' ? 'B' : 'A'}${token.slice(at + 1)}`)
  }
  bad.push('x'.repeat(100_000))
  for (const text of bad) await assert.rejects(agent.request('resume', {}, text), refusal('auth_failed'), text)
  await agent.request('resume', {}, token)
})

test('a token is valid for 10 minutes', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await opened(world)
  const { token } = agent
  await world.advance(10 * MINUTE - 1)
  await agent.request('resume', {}, token)
  await world.advance(1)
  await assert.rejects(agent.request('resume', {}, token), refusal('auth_failed'))
})

test('calls renew a token after half of its lifetime, up to an hour after the opening', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await opened(world, '')
  const first = agent.token
  await world.advance(5 * MINUTE - 1)
  await agent.request('resume', {})
  assert.equal(agent.token, first)
  await world.advance(1)
  for (let minutes = 5; minutes < 60; minutes += 5) {
    const before = agent.token
    await agent.request('resume', {})
    assert.equal(agent.token === before, minutes > 50, `after ${minutes} minutes`)
    await world.advance(5 * MINUTE - (minutes === 55 ? 1 : 0))
  }
  await agent.request('resume', {})
  await world.advance(1)
  await assert.rejects(agent.request('resume', {}), refusal('auth_failed'))
})

test('a token does not outlive the JWT', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = new UnaryAgent(world)
  assert.equal((await agent.open(world.api.token('acme', { lifetime: 420 }))).expiresInMs, 7 * MINUTE)
  await world.advance(6 * MINUTE)
  const { token } = agent
  await agent.request('resume', {})
  assert.equal(agent.token, token, 'a new one would live no longer')
  await world.advance(MINUTE)
  await assert.rejects(agent.request('resume', {}), refusal('auth_failed'))
})

test('a refresh with a new JWT of the same account returns a token with its lifetime', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await opened(world, world.api.token('acme', { lifetime: 420 }))
  await world.advance(6 * MINUTE)
  await assert.rejects(agent.refresh(world.api.token('other')), refusal('auth_failed'))
  assert.equal((await agent.refresh(world.api.token('acme'))).expiresInMs, 10 * MINUTE)
  await world.advance(9 * MINUTE)
  await agent.request('resume', {})
})

test('the nonce of a unary challenge is valid once, for 30 s, and only for a token', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = new UnaryAgent(world)
  const ask = (): ReturnType<typeof agent.request<'getChallenge'>> =>
    agent.request('getChallenge', { revision: REVISION })
  const once = await ask()
  await agent.answer(once)
  await assert.rejects(agent.answer(once), refusal('auth_failed'))
  const late = await ask()
  await world.advance(30_001)
  await assert.rejects(agent.answer(late), refusal('auth_failed'))
  await assert.rejects(agent.answer(await ask(), '', { purpose: Purpose.SESSION }), refusal('invalid_request'))
  await assert.rejects(agent.answer(await ask(), '', { relayNonce: randomBytes(32) }), refusal('auth_failed'))
  const streamed = await Agent.dial(world.transport.wire('cbor'), agent.key)
  const foreign = await streamed.request('getChallenge', { revision: REVISION })
  await assert.rejects(agent.answer(foreign), refusal('auth_failed'), "a stream's challenge is the stream's")
})

test('a subscription starts with the response to its resume, pushes follow, and a call acknowledges them', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  const reader = await opened(world, '')
  await owner.commit(channelId, 0n, { adds: [reader.key.id] })
  const pushes = reader.subscribe([channelId])
  await quiet()
  assert.deepEqual(cases(pushes), ['resume', 'deliverWelcome'])
  await owner.send(channelId, 1n, 1n)
  await owner.send(channelId, 1n, 2n)
  await quiet()
  assert.deepEqual(cases(pushes).slice(2), ['deliverMessage', 'deliverMessage'])
  const ack = (index: bigint): Promise<unknown> => reader.request('ack', { positions: [{ channelId, index }] })
  await ack(3n)
  const { channels } = await reader.request('resume', { channelIds: [channelId] })
  assert.equal(channels[0]?.cursor?.index, 3n)
  pushes.subscription.close()
  await ack(3n)
})

test('entries delivered by a subscription can still be acknowledged after its end', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  const reader = await opened(world, '')
  await owner.commit(channelId, 0n, { adds: [reader.key.id] })
  const ack = (index: bigint): Promise<unknown> => reader.request('ack', { positions: [{ channelId, index }] })
  const pushes = reader.subscribe()
  await quiet()
  await owner.send(channelId, 1n, 1n)
  await quiet()
  pushes.subscription.close()
  await owner.send(channelId, 1n, 2n)
  await ack(2n)
  const { channels } = await reader.request('resume', { channelIds: [channelId] })
  assert.equal(channels[0]?.cursor?.index, 2n)
})

test('a subscription without a valid token gets an error and ends', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await opened(world)
  const pushes = agent.subscribe([], 'garbage')
  await quiet()
  assert.deepEqual(cases(pushes), ['error'])
  assert.equal(pushes.ended, true)
  const many = agent.subscribe([randomBytes(3)])
  await quiet()
  assert.deepEqual([cases(many), many.ended], [['error'], true])
  assert.equal(world.driver.counts.streams, 0)
})

test('a congested reader gets nothing until it has room, and then everything in order', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  const reader = await opened(world, '')
  await owner.commit(channelId, 0n, { adds: [reader.key.id] })
  const pushes = reader.subscribe()
  await quiet()
  pushes.room = false
  const before = pushes.messages.length
  await Promise.all(Array.from({ length: 20 }, (_, at) => owner.send(channelId, 1n, BigInt(at + 1))))
  await quiet()
  assert.equal(pushes.messages.length, before + 1, 'the one that found it full')
  pushes.room = true
  pushes.subscription.room()
  await quiet()
  const indexes = pushes.messages.flatMap(({ body }) => (body.case === 'deliverMessage' ? [body.value.index] : []))
  assert.deepEqual(
    indexes,
    Array.from({ length: 20 }, (_, at) => BigInt(at + 2)),
  )
})

test('a subscription replaces an older session, and ends with its JWT', async (t) => {
  const world = await openMemoryRelay(t)
  const key = makeKey()
  const jwt = world.api.token('acme')
  const session = await Agent.connect(world.transport.wire('cbor'), { key, jwt })
  const unary = new UnaryAgent(world, key)
  await unary.open(jwt)
  const pushes = unary.subscribe()
  await session.ended
  assert.equal((await session.next('sessionClosing')).reason, CloseReason.REPLACED)
  await world.advance(3_600_000 + 30_001)
  assert.equal(pushes.ended, true)
  const last = pushes.messages.at(-1)?.body
  assert.equal(last?.case === 'sessionClosing' && last.value.error?.code, 'auth_failed')
})
