/** Resumes take turns in the store, so that one address does not keep the messages of others waiting. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { Agent, makeKey, refusal } from '@static/testkit/agent'
import type { StreamId } from '../../src/ports.ts'
import { openMemoryRelay } from '../support/memory-relay.ts'
import { PEER, PureRelay } from '../support/pure-relay.ts'

/** Sessions of guests, each on its stream and from its address. */
async function guests(pure: PureRelay, addresses: readonly string[]): Promise<void> {
  for (const [at, address] of addresses.entries()) {
    pure.open(at + 1, { ...PEER, address })
    pure.answer(at + 1, makeKey())
    await pure.settle()
  }
}

/** Resumes made-up channels. */
function resume(pure: PureRelay, stream: StreamId, count: number): void {
  const channelIds = Array.from({ length: count }, () => new Uint8Array(randomBytes(16)))
  pure.receive(stream, { case: 'resume', value: { channelIds } })
}

/** How many channels each Resume in the store names. */
function inStore({ asked }: PureRelay): number[] {
  return asked.flatMap((effect) =>
    effect.type === 'store' && effect.name === 'resume' ? (effect.request.channels?.length ?? assert.fail()) : [],
  )
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)
const answered = (pure: PureRelay, stream: StreamId): number[] =>
  (pure.sent.get(stream) ?? []).flatMap(({ body }) => (body.case === 'resume' ? body.value.channels.length : []))

async function answerOne(pure: PureRelay): Promise<void> {
  const done = await pure.execute('resume')
  done()
}

test('large Resumes of one address are in the store one at a time, in their order, and others get in between', async () => {
  const pure = await PureRelay.make()
  await guests(pure, ['198.51.100.1', '198.51.100.1', '198.51.100.2'])
  const counts = Array.from({ length: 9 }, (_, at) => 1600 + at)
  for (const count of counts) resume(pure, 1, count)
  resume(pure, 2, 2000)
  assert.deepEqual(inStore(pure), [1600])
  resume(pure, 3, 2000)
  assert.deepEqual(inStore(pure), [1600, 2000], 'another address')
  for (let at = 0; at < 3; at++) await answerOne(pure)
  assert.equal(answered(pure, 3).length, 1, 'after the first two of the nine')
  while (inStore(pure).length > 0) {
    assert.equal(inStore(pure).length, 1)
    await answerOne(pure)
  }
  assert.deepEqual(answered(pure, 1), counts)
  assert.deepEqual(answered(pure, 2), [2000])
  assert.equal(pure.relay.counts.requests, 0)
})

test('many small Resumes of one address are no way around the turns', async () => {
  const pure = await PureRelay.make()
  await guests(pure, ['198.51.100.1'])
  for (let count = 0; count < 300; count++) resume(pure, 1, 64)
  let most = 0
  for (; inStore(pure).length > 0; await answerOne(pure)) most = Math.max(most, sum(inStore(pure)))
  assert.equal(most, 3072)
  assert.equal(answered(pure, 1).length, 300)
})

test('agents that reconnect do not wait: one with 2,000 channels, or many with a few each', async () => {
  const pure = await PureRelay.make()
  await guests(pure, ['198.51.100.1', ...Array.from({ length: 48 }, () => '198.51.100.2')])
  for (let part = 0; part < 4; part++) resume(pure, 1, 500)
  assert.equal(sum(inStore(pure)), 2000)
  for (let stream = 2; stream <= 49; stream++) resume(pure, stream, 64)
  assert.equal(sum(inStore(pure)), 2000 + 48 * 64)
})

test('a Resume that waits is forgotten with its stream, and one in the store keeps its turn', async () => {
  const pure = await PureRelay.make()
  await guests(pure, ['198.51.100.1', '198.51.100.1', '198.51.100.1'])
  for (const stream of [1, 2, 2, 3]) resume(pure, stream, 2000)
  pure.handle({ type: 'closed', stream: 2 })
  assert.equal(pure.relay.counts.requests, 2)
  pure.handle({ type: 'closed', stream: 1 })
  assert.deepEqual(inStore(pure), [2000], 'reconnecting gets no one a turn')
  await answerOne(pure)
  await answerOne(pure)
  assert.deepEqual(inStore(pure), [])
  assert.equal(answered(pure, 3).length, 1)
  assert.equal(pure.relay.counts.requests, 0)
})

test('a /48 has the turns of 16 addresses, which its networks take in turn', async () => {
  const pure = await PureRelay.make()
  const addresses = Array.from({ length: 30 }, (_, at) => `2001:db8:0:${(at + 1).toString(16)}::1`)
  await guests(pure, addresses)
  for (let round = 0; round < 2; round++) for (const at of addresses.keys()) resume(pure, at + 1, 2000)
  assert.equal(inStore(pure).length, Math.floor((16 * 3072) / 2000))
  for (let count = 0; count < 30; count++) await answerOne(pure)
  const first = [...addresses.keys()].map((at) => answered(pure, at + 1).length)
  assert.deepEqual(
    first,
    addresses.map(() => 1),
  )
  await pure.settle()
  assert.equal(pure.relay.counts.requests, 0)
})

test('a Resume without ids costs as many channels as it returns, one of an agent at a time', async (t) => {
  const world = await openMemoryRelay(t, { settings: { rates: { resumedPerMinute: 100 } } })
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  for (let number = 0; number < 40; number++) await owner.createChannel(`acme/x/y${number}`)
  const run = world.store.run.bind(world.store)
  let [now, most] = [0, 0]
  world.store.run = async (name, request) => {
    if (name === 'resume') most = Math.max(most, ++now)
    const result = await run(name, request)
    if (name === 'resume') now--
    return result
  }
  const all = async (): Promise<number> => (await owner.request('resume', {})).channels.length
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, all))
  const returned = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? outcome.value : []))
  assert.deepEqual(returned, [40, 40], 'creating each has taken one')
  assert.equal(most, 1)
  await world.advance(12_000)
  await assert.rejects(all(), refusal('rate_limited'), 'it has had 20 too many')
  await world.advance(1000)
  assert.equal(await all(), 40)
})
