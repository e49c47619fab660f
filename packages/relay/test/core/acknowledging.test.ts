/** When acknowledgements are stored: together and late, unless someone asks or needs room. */
import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { toHex } from '@static/protocol'
import { ReceiptDemand } from '@static/protocol/relay'
import { Agent, makeKey } from '@static/testkit/agent'
import type { StoreRequest } from '../../src/ports.ts'
import { openMemoryCluster } from '../support/memory-cluster.ts'
import { type MemoryRelay, openMemoryRelay, quiet } from '../support/memory-relay.ts'

const receipt = (byte: number): Uint8Array => new Uint8Array(129).fill(byte)

/** Records what the node asks its store to acknowledge, in order. */
function watch({ store }: MemoryRelay): StoreRequest<'ack'>[] {
  const stored: StoreRequest<'ack'>[] = []
  const run = store.run.bind(store)
  store.run = (name, request) => {
    if (name === 'ack') stored.push(request as StoreRequest<'ack'>)
    return run(name, request)
  }
  return stored
}

/** Two members that read a channel with this many messages, and what is stored from now on. */
async function readers(
  t: TestContext,
  messages: number,
): Promise<{
  readonly world: MemoryRelay
  readonly owner: Agent
  readonly bob: Agent
  readonly channelId: Uint8Array
  readonly stored: readonly StoreRequest<'ack'>[]
}> {
  const world = await openMemoryRelay(t)
  const members = await membersAt(world, messages)
  await world.advance(1000)
  return { world, ...members, stored: watch(world) }
}

async function membersAt(
  world: MemoryRelay,
  messages: number,
): Promise<{ readonly owner: Agent; readonly bob: Agent; readonly channelId: Uint8Array }> {
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const bob = await Agent.connect(world.transport.wire('protobuf'), { key: makeKey() })
  const channelId = await owner.createChannel('acme/x/y')
  await owner.commit(channelId, 0n, { adds: [bob.id] })
  for (let counter = 1; counter <= messages; counter++) await owner.send(channelId, 1n, BigInt(counter))
  for (const agent of [owner, bob]) await agent.request('resume', { channelIds: [channelId] })
  await quiet()
  return { owner, bob, channelId }
}

test('acknowledgements of all sessions are stored together, once a second', async (t) => {
  const { world, owner, bob, channelId, stored } = await readers(t, 3)
  owner.ack(channelId, 2n)
  bob.ack(channelId, 2n)
  await world.advance(500)
  bob.ack(channelId, 3n)
  await world.advance(450)
  assert.equal(stored.length, 0)
  await world.advance(50)
  assert.deepEqual(
    stored.map(({ agent, positions }) => [agent, positions.map(({ index }) => index)]),
    [
      [toHex(owner.id), [2]],
      [toHex(bob.id), [3]],
    ],
  )
  await world.advance(2000)
  assert.equal(stored.length, 2, 'nothing new, nothing stored')
})

test('acknowledgements of 16 entries are stored at the next tick, because they free room', async (t) => {
  const { world, bob, channelId, stored } = await readers(t, 40)
  bob.ack(channelId, 16n)
  await world.advance(50)
  assert.equal(stored.length, 0)
  bob.ack(channelId, 17n)
  await world.advance(50)
  assert.equal(stored.length, 1)
  bob.ack(channelId, 18n)
  await world.advance(50)
  assert.equal(stored.length, 1, 'the count begins anew')
})

test('a session that ends has its acknowledgements stored at once', async (t) => {
  const { bob, channelId, stored } = await readers(t, 3)
  bob.ack(channelId, 3n)
  bob.close()
  await quiet()
  assert.equal(stored.length, 1)
})

test('a Resume sees what every session here has acknowledged', async (t) => {
  const { owner, bob, channelId, stored } = await readers(t, 3)
  bob.ack(channelId, 3n, receipt(7))
  owner.ack(channelId, 3n)
  const { channels } = await owner.request('resume', { channelIds: [channelId], receipts: ReceiptDemand.SAMPLE })
  assert.equal(stored.length, 2)
  assert.equal(channels[0]?.cursor?.index, 3n)
  await quiet()
  const pushed = owner.pushes.flatMap(({ body }) => (body.case === 'receipts' ? body.value.receipts : []))
  assert.deepEqual(
    pushed.map((each) => each.receipt[0]),
    [7],
  )
})

test('a node of several stores acknowledgements at each tick, because the others answer from the store', async (t) => {
  const cluster = await openMemoryCluster(t)
  const [node] = cluster.nodes
  const { bob, channelId } = await membersAt(node, 3)
  await cluster.advance(1000)
  const stored = watch(node)
  bob.ack(channelId, 3n)
  await cluster.advance(50)
  assert.equal(stored.length, 1)
})
