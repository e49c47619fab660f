/** The last receipt of each member is beside its cursor, in every engine. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { accepted, agentId, type ChannelFixture, forEachEngine, member } from './channel-fixture.ts'

const receipt = (byte: number): Uint8Array => new Uint8Array(129).fill(byte)

async function ack(world: ChannelFixture, name: string, index: number, byte: number): Promise<void> {
  const positions = [{ channel: world.channel, index, receipt: receipt(byte) }]
  await world.run('ack', { agent: agentId(name), positions })
}

/** The first byte of each receipt that a member is given, by who sent it. */
async function given(world: ChannelFixture, name: string, receipts = 250): Promise<Record<string, number>> {
  const { standings } = await world.resume(name, [world.channel], { receipts })
  const [standing] = standings
  assert.ok(standing)
  const list = 'receipts' in standing ? (standing.receipts ?? []) : []
  for (const each of list) assert.equal(each.receipt.length, 129)
  const names = new Map(['alice', 'bob', 'carol', 'dave'].map((each) => [agentId(each), each]))
  return Object.fromEntries(list.map(({ agent, receipt: [byte = 0] }) => [names.get(agent) ?? agent, byte]))
}

forEachEngine((open) => {
  test("a member gets as many of the others' last receipts as it asks for", async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    await world.chatter('alice', 3)
    assert.deepEqual(await given(world, 'alice'), {})
    await ack(world, 'bob', 3, 1)
    await ack(world, 'bob', 4, 2)
    await ack(world, 'carol', 2, 3)
    await ack(world, 'alice', 4, 4)
    assert.deepEqual(await given(world, 'alice'), { bob: 2, carol: 3 })
    assert.deepEqual(await given(world, 'bob'), { alice: 4, carol: 3 })
    assert.deepEqual(await given(world, 'alice', 1), { bob: 2 }, 'of the one that is furthest')
    assert.deepEqual(await given(world, 'alice', 0), {})
    // The position is known already: only the receipt is new.
    await ack(world, 'bob', 4, 5)
    assert.deepEqual(await given(world, 'alice'), { bob: 5, carol: 3 })
    // Without a receipt the last one stays.
    await world.ack('carol', 4)
    assert.deepEqual(await given(world, 'alice'), { bob: 5, carol: 3 })
  })

  test('receipts end with the membership, and an agent that is not a member has none', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    await world.chatter('alice', 1)
    await ack(world, 'bob', 2, 1)
    await ack(world, 'dave', 2, 9)
    assert.deepEqual(await given(world, 'alice'), { bob: 1 })
    accepted(await world.commit('alice', { removes: ['bob'] }))
    assert.deepEqual(await given(world, 'alice'), {})
    await ack(world, 'bob', 3, 2)
    assert.deepEqual(await given(world, 'alice'), {}, 'a removed member sends no more')
    await ack(world, 'carol', 3, 3)
    assert.deepEqual(await given(world, 'bob'), {}, 'nor is it given any')
    accepted(await world.commit('alice', { adds: ['bob'] }))
    assert.deepEqual(await given(world, 'alice'), { carol: 3 }, 'the old one is not of this stay')
  })

  test('undoing a commit leaves the receipts of all others, and restores that of the removed member', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    await ack(world, 'bob', 1, 1)
    await ack(world, 'carol', 1, 2)
    const slot = world.head
    accepted(await world.commit('alice', { removes: ['bob'] }))
    await world.reject(member('alice'), slot)
    assert.deepEqual(await given(world, 'alice'), { bob: 1, carol: 2 })
  })
})
