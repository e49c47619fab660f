/** Who is given which receipt, and how often. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { Code } from '@connectrpc/connect'
import { ERRORS, toHex } from '@static/protocol'
import { ReceiptDemand } from '@static/protocol/relay'
import { Agent, makeKey, refusal } from '@static/testkit/agent'
import { openMemoryCluster } from '../support/memory-cluster.ts'
import { type MemoryRelay, openMemoryRelay, quiet } from '../support/memory-relay.ts'
import { UnaryAgent } from '../support/unary.ts'
import type { StoreRequest } from '../../src/ports.ts'

const receipt = (byte: number): Uint8Array => new Uint8Array(129).fill(byte)

/** A channel of an owner and two members, connected to these nodes. */
async function channelOf(nodes: readonly [MemoryRelay, MemoryRelay, MemoryRelay]): Promise<{
  readonly agents: readonly [Agent, Agent, Agent]
  readonly channelId: Uint8Array
}> {
  const [one, two, three] = nodes
  const owner = await Agent.connect(one.transport.wire('cbor'), { jwt: one.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  const bob = await Agent.connect(two.transport.wire('protobuf'), { key: makeKey() })
  const eve = await Agent.connect(three.transport.wire('cbor'), { key: makeKey() })
  await owner.commit(channelId, 0n, { adds: [bob.id, eve.id] })
  await quiet()
  return { agents: [owner, bob, eve], channelId }
}

/** What an agent was pushed since the last call: for each push, who sent which receipt, by their first byte. */
function taken(agent: Agent, others: readonly Agent[]): string[] {
  const names = new Map(others.map(({ id }, at) => [toHex(id), ['owner', 'bob', 'eve'][at]]))
  const texts = agent.pushes.flatMap(({ body }) => {
    if (body.case !== 'receipts') return []
    const { receipts } = body.value
    return [receipts.map((each) => `${names.get(toHex(each.agentId))} ${each.receipt[0]}`).join(', ')]
  })
  agent.pushes.splice(0)
  return texts
}

test('a session that asked gets all receipts at Resume, later ones at most four times a second', async (t) => {
  const world = await openMemoryRelay(t)
  const { agents, channelId } = await channelOf([world, world, world])
  const [owner, bob, eve] = agents
  for (const agent of [bob, eve]) await agent.request('resume', { channelIds: [channelId] })
  bob.ack(channelId, 1n, receipt(1))
  await world.advance(300)
  await owner.request('resume', { channelIds: [channelId], receipts: ReceiptDemand.ALL })
  await quiet()
  assert.deepEqual(taken(owner, agents), ['bob 1'])
  bob.ack(channelId, 1n, receipt(2))
  bob.ack(channelId, 1n, receipt(3))
  eve.ack(channelId, 1n, receipt(4))
  await world.advance(250)
  assert.deepEqual(taken(owner, agents), ['bob 3, eve 4'], 'one push with the last of each')
  bob.ack(channelId, 1n, receipt(5))
  await world.advance(200)
  assert.deepEqual(taken(owner, agents), [])
  await world.advance(50)
  assert.deepEqual(taken(owner, agents), ['bob 5'])
  await world.advance(1000)
  assert.deepEqual(taken(owner, agents), [], 'nothing new, nothing sent')
  assert.deepEqual(taken(bob, agents), [], 'it did not ask')
  // None of it is in the log.
  const { channels } = await owner.request('resume', { channelIds: [channelId], receipts: ReceiptDemand.ALL })
  assert.equal(channels[0]?.lastIndex, 1n)
})

test('a session that asked for samples gets one receipt a second, and the last one when it is quiet', async (t) => {
  const world = await openMemoryRelay(t)
  const { agents, channelId } = await channelOf([world, world, world])
  const [owner, bob, eve] = agents
  for (const agent of [bob, eve]) await agent.request('resume', { channelIds: [channelId] })
  await owner.request('resume', { channelIds: [channelId], receipts: ReceiptDemand.SAMPLE })
  await world.advance(1000)
  const seen: string[] = []
  for (let round = 1; round <= 12; round++) {
    bob.ack(channelId, 1n, receipt(2 * round))
    eve.ack(channelId, 1n, receipt(2 * round + 1))
    await world.advance(250)
    seen.push(...taken(owner, agents))
  }
  assert.deepEqual(seen, ['eve 3', 'eve 11', 'eve 19'])
  await world.advance(1000)
  assert.deepEqual(taken(owner, agents), ['eve 25'])
})

test('a reader that does not read gets the last receipt of each when it does', async (t) => {
  const world = await openMemoryRelay(t)
  const { agents, channelId } = await channelOf([world, world, world])
  const [owner, bob, eve] = agents
  for (const agent of [bob, eve]) await agent.request('resume', { channelIds: [channelId] })
  await owner.request('resume', { channelIds: [channelId], receipts: ReceiptDemand.ALL })
  taken(owner, agents)
  owner.deaf = true
  for (let counter = 1n; counter <= 3n; counter++) await bob.send(channelId, 1n, counter, new Uint8Array(200_000))
  await quiet()
  for (let round = 1; round <= 4; round++) {
    bob.ack(channelId, 1n, receipt(round))
    if (round === 1) eve.ack(channelId, 1n, receipt(9))
    await world.advance(250)
  }
  assert.equal(owner.pushes.filter(({ body }) => body.case === 'receipts').length, 0)
  // Not stored yet when the reader comes back.
  bob.ack(channelId, 1n, receipt(5))
  owner.hear()
  await owner.until(() => owner.pushes.filter(({ body }) => body.case === 'deliverMessage').length === 3)
  await world.advance(500)
  assert.equal(taken(owner, agents).at(-1), 'bob 5, eve 9')
})

test('an agent that was removed and has not read that far gets no receipts', async (t) => {
  const world = await openMemoryRelay(t)
  const { agents, channelId } = await channelOf([world, world, world])
  const [owner, bob, eve] = agents
  await bob.request('resume', { channelIds: [channelId] })
  await eve.request('resume', { channelIds: [channelId], receipts: ReceiptDemand.ALL })
  bob.ack(channelId, 1n, receipt(1))
  await world.advance(250)
  assert.deepEqual(taken(eve, agents), ['', 'bob 1'])
  eve.deaf = true
  for (let counter = 1n; counter <= 3n; counter++) await bob.send(channelId, 1n, counter, new Uint8Array(200_000))
  await owner.commit(channelId, 1n, { removes: [eve.id] })
  const gate = Promise.withResolvers<void>()
  const run = world.store.run.bind(world.store)
  world.store.run = async (name, request) => {
    if (name === 'read') await gate.promise
    return await run(name, request)
  }
  // It reads again, but what it reads next is not there yet.
  eve.hear()
  await quiet()
  for (let round = 2; round <= 4; round++) {
    bob.ack(channelId, 1n, receipt(round))
    await world.advance(250)
  }
  gate.resolve()
  await quiet()
  assert.ok(
    eve.pushes.some(({ body }) => body.case === 'deliverCommit'),
    'it has read the commit that removed it',
  )
  assert.deepEqual(
    taken(eve, agents).filter((text) => text !== ''),
    [],
  )
})

test('an agent in many large channels gets all their receipts, and keeps its session', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const members = Array.from({ length: 249 }, () => new Uint8Array(randomBytes(32)))
  const channelIds: Uint8Array[] = []
  for (let number = 0; number < 40; number++) {
    channelIds.push(await owner.createChannel(`acme/x/y${number}`))
    await owner.commit(channelIds[number] ?? assert.fail(), 0n, { adds: members })
  }
  const positions = channelIds.map((id) => ({ channel: toHex(id), index: 1, receipt: receipt(1) }))
  for (const member of members) await world.store.run('ack', { agent: toHex(member), positions })
  await owner.request('resume', { channelIds, receipts: ReceiptDemand.ALL })
  const counts = (): unknown[] =>
    owner.pushes.flatMap(({ body }) => {
      if (body.case === 'deliverCommit') return []
      return body.case === 'receipts' ? body.value.receipts.length : body.case
    })
  for (let round = 0; round < 80 && counts().length < channelIds.length; round++) await world.advance(250)
  assert.deepEqual(
    counts(),
    channelIds.map(() => members.length),
  )
})

test('only members have receipts in a channel, of the right size, and only those of members are passed on', async (t) => {
  const world = await openMemoryRelay(t)
  const { agents, channelId } = await channelOf([world, world, world])
  const [owner, bob, eve] = agents
  for (const agent of [bob, eve]) await agent.request('resume', { channelIds: [channelId] })
  await owner.request('resume', { channelIds: [channelId], receipts: ReceiptDemand.ALL })
  const stranger = await Agent.connect(world.transport.wire('cbor'), { key: makeKey() })
  stranger.ack(channelId, 1n, receipt(7))
  await owner.commit(channelId, 1n, { removes: [eve.id] })
  await quiet()
  taken(owner, agents)
  eve.ack(channelId, 2n, receipt(8))
  await world.advance(300)
  assert.deepEqual(taken(owner, agents), [])
  await assert.rejects(
    bob.request('ack', { positions: [{ channelId, index: 1n, receipt: new Uint8Array(128) }] }),
    refusal('invalid_request'),
  )
  await assert.rejects(owner.request('resume', { receipts: 9 as ReceiptDemand }), refusal('invalid_request'))
  bob.ack(channelId, 1n, new Uint8Array(1))
  await quiet()
  assert.equal(bob.pushes.at(-1)?.body.case, 'sessionClosing')
})

/** Counts the channels that the store looks for because of acknowledgements. */
function lookups({ store }: MemoryRelay): () => number {
  const run = store.run.bind(store)
  let looked = 0
  store.run = async (name, request) => {
    if (name === 'ack') looked += (request as StoreRequest<'ack'>).positions.length
    return await run(name, request)
  }
  return () => looked
}

/** Positions in channels that do not exist. */
function madeUp(count: number): { channelId: Uint8Array; index: bigint }[] {
  return Array.from({ length: count }, () => ({ channelId: new Uint8Array(randomBytes(16)), index: 1n }))
}

const TOO_MANY = /the limit is 2000 acknowledged channels that the session does not read, per agent and per address/u

test('an agent cannot make the store look for any number of channels by acknowledging in them', async (t) => {
  const world = await openMemoryRelay(t)
  const { agents, channelId } = await channelOf([world, world, world])
  const [, bob] = agents
  await bob.request('resume', { channelIds: [channelId] })
  const looked = lookups(world)
  // In cells of their own, which get no answer.
  for (const each of madeUp(2500)) bob.ack(each.channelId, each.index)
  bob.ack(channelId, 1n)
  await world.advance(300)
  assert.equal(looked(), 2001)
  bob.ack(channelId, 1n)
  for (const each of madeUp(30)) bob.ack(each.channelId, each.index)
  await world.advance(1000)
  assert.equal(looked(), 2001 + 1 + 10, 'as many as 300 ms add')
  // In requests.
  const tooLong = bob.request('ack', { positions: madeUp(2001) })
  await assert.rejects(tooLong, refusal('invalid_request', /at most 2000 entries/u))
  for (let count = 0; count < 20; count++) {
    await bob.request('ack', { positions: [{ channelId, index: 1n }, ...madeUp(1)] })
    await assert.rejects(bob.request('ack', { positions: madeUp(64) }), refusal('rate_limited', TOO_MANY))
  }
})

test('an uninvited guest makes the store look for few channels, however it acknowledges them', async (t) => {
  const world = await openMemoryRelay(t)
  const guest = await Agent.connect(world.transport.wire('cbor'), { key: makeKey() })
  const caller = new UnaryAgent(world)
  await caller.open('')
  for (const agent of [guest, caller]) {
    const looked = lookups(world)
    const burst = Array.from({ length: 200 }, () => agent.request('ack', { positions: madeUp(64) }))
    const outcomes = await Promise.allSettled(burst)
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, Math.floor(2000 / 63))
    assert.equal(looked(), Math.floor(2000 / 63) * 64)
    await assert.rejects(agent.request('ack', { positions: madeUp(64) }), refusal('rate_limited', TOO_MANY))
    await agent.request('ack', { positions: madeUp(1) })
    await world.advance(60_000)
  }
})

test('channels that a session or a subscription was told of are acknowledged at no cost, even after a removal', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const bob = await Agent.connect(world.transport.wire('cbor'), { key: makeKey() })
  const caller = new UnaryAgent(world)
  await caller.open('')
  const channelIds: Uint8Array[] = []
  for (let number = 0; number < 64; number++) {
    const channelId = await owner.createChannel(`acme/x/y${number}`)
    channelIds.push(channelId)
    await owner.commit(channelId, 0n, { adds: [bob.id, caller.key.id] })
  }
  await bob.request('resume', { channelIds })
  const pushes = caller.subscribe(channelIds)
  await quiet()
  // Nothing is left for channels that they were not told of.
  for (const agent of [bob, caller]) {
    await assert.rejects(
      async () => {
        for (let count = 0; count < 100; count++) await agent.request('ack', { positions: madeUp(40) })
      },
      refusal('rate_limited', TOO_MANY),
    )
  }
  const positions = (index: bigint): object[] => channelIds.map((channelId) => ({ channelId, index }))
  for (const agent of [bob, caller]) await agent.request('ack', { positions: positions(1n) })
  for (const channelId of channelIds) await owner.commit(channelId, 1n, { removes: [bob.id, caller.key.id] })
  await quiet()
  for (const channelId of channelIds) bob.ack(channelId, 2n)
  await caller.request('ack', { positions: positions(2n) })
  await world.advance(300)
  const { channels } = await bob.request('resume', { channelIds })
  assert.deepEqual(
    channels.map(({ error }) => error?.code),
    channelIds.map(() => 'removed'),
    'all of it is read',
  )
  pushes.subscription.close()
})

test('a member whose receipts acknowledge nothing new has few of them, and the last one counts', async (t) => {
  const world = await openMemoryRelay(t)
  const { agents, channelId } = await channelOf([world, world, world])
  const [owner, bob] = agents
  const run = world.store.run.bind(world.store)
  let written = 0
  world.store.run = async (name, request) => {
    if (name === 'ack') written += (request as StoreRequest<'ack'>).positions.filter((each) => each.receipt).length
    return await run(name, request)
  }
  await owner.request('resume', { channelIds: [channelId], receipts: ReceiptDemand.ALL })
  await bob.request('resume', { channelIds: [channelId] })
  await quiet()
  taken(owner, agents)
  for (let round = 1; round <= 40; round++) {
    bob.ack(channelId, 1n, receipt(round))
    await world.advance(250)
  }
  assert.equal(written, 4, '16 in four seconds, of which the last of each second is stored')
  assert.deepEqual(taken(owner, agents).at(-1), 'bob 16')
  await world.advance(10_000)
  assert.deepEqual(taken(owner, agents), ['bob 40'], 'ten seconds after the last')
  // One for each entry.
  for (let counter = 1n; counter <= 3n; counter++) await owner.send(channelId, 1n, counter)
  await quiet()
  bob.ack(channelId, 4n, receipt(50))
  for (let round = 51; round <= 60; round++) {
    bob.ack(channelId, 4n, receipt(round))
    await world.advance(250)
  }
  assert.deepEqual(taken(owner, agents), ['bob 51', 'bob 52', 'bob 53'])
  // And the last one when it goes.
  bob.close()
  await quiet()
  await world.advance(250)
  assert.deepEqual(taken(owner, agents), ['bob 60'])
})

test('receipts of a member reach readers at other nodes', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { agents, channelId } = await channelOf(cluster.nodes)
  const [owner, bob, eve] = agents
  for (const agent of agents) await agent.request('resume', { channelIds: [channelId], receipts: ReceiptDemand.ALL })
  for (const agent of agents) taken(agent, agents)
  bob.ack(channelId, 1n, receipt(1))
  await cluster.advance(250)
  await cluster.advance(250)
  assert.deepEqual([taken(owner, agents), taken(eve, agents)], [['bob 1'], ['bob 1']])
  cluster.bus.faults.drop = 1
  bob.ack(channelId, 1n, receipt(2))
  await cluster.advance(500)
  await owner.request('resume', { channelIds: [channelId], receipts: ReceiptDemand.ALL })
  await quiet()
  assert.deepEqual(taken(owner, agents).at(-1), 'bob 2', 'what the bus lost is in the store')
})

test('a peer of revision 1 is refused with a sentence that says so', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await Agent.dial(world.transport.wire('cbor'), makeKey())
  await assert.rejects(
    agent.request('getChallenge', { revision: 1 }),
    refusal('version_mismatch', /agent uses protocol revision 1, and this relay needs revision 2 or later/u),
  )
  assert.equal(ERRORS.version_mismatch.grpc, Code.FailedPrecondition, 'gRPC clients retry UNAVAILABLE')
  assert.equal(ERRORS.version_mismatch.retryable, false)
})
