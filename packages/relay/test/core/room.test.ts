/** What the relay says of a channel that fills up, and what the tokens of an account say of its room. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { toHex } from '@static/protocol'
import { Agent, refusal, Refused } from '@static/testkit/agent'
import { openMemoryRelay, quiet, type MemoryRelay } from '../support/memory-relay.ts'

const LARGE = new Uint8Array(10_000)

/** A channel with one member that fetches nothing. */
async function channelWith(
  world: MemoryRelay,
  jwt: string,
): Promise<{ owner: Agent; away: Agent; channelId: Uint8Array }> {
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt })
  const channelId = await owner.createChannel('acme/x/y')
  const away = await Agent.connect(world.transport.wire('protobuf'))
  await owner.commit(channelId, 0n, { adds: [away.id] })
  away.close()
  await quiet()
  return { owner, away, channelId }
}

/** Sends until there is no room; gives how many were taken. */
async function fill(owner: Agent, channelId: Uint8Array, from = 1n): Promise<number> {
  for (let counter = from; counter < from + 200n; counter++) {
    try {
      await owner.send(channelId, 1n, counter, LARGE)
    } catch (error) {
      assert.ok(error instanceof Refused)
      assert.equal(error.code, 'queue_full')
      return Number(counter - from)
    }
  }
  return assert.fail('it is never full')
}

test('answers to sends name the lagging members from three quarters on, and so does queue_full', async (t) => {
  const world = await openMemoryRelay(t, { settings: { retention: { channelEntries: 40 } } })
  const { owner, away, channelId } = await channelWith(world, world.api.token('acme'))
  const waits: number[] = []
  for (let counter = 1n; counter <= 29n; counter++) {
    const { waitMs, lagging } = await owner.send(channelId, 1n, counter)
    waits.push(waitMs ?? 0)
    if (waitMs === undefined) assert.deepEqual(lagging, [])
    else assert.ok(lagging.some(({ agentId, waiting }) => toHex(agentId) === toHex(away.id) && waiting === counter))
  }
  assert.equal(
    waits.findIndex((wait) => wait > 0),
    21,
  )
  assert.ok((waits.at(-1) ?? 0) > 50 && Math.max(...waits) <= 100, String(waits))
  await assert.rejects(owner.send(channelId, 1n, 30n), (error) => {
    assert.ok(error instanceof Refused)
    assert.equal(error.code, 'queue_full')
    assert.match(error.message, /holds 30 of 40 entries/)
    const named = error.refusal.lagging.map(({ agentId }) => toHex(agentId))
    assert.ok(named.includes(toHex(owner.id)) || named.includes(toHex(away.id)))
    return true
  })
})

test('the token of an account sets the room of its channels; a newer token changes it, an older one does not', async (t) => {
  const world = await openMemoryRelay(t)
  const token = (channel: number): string => world.api.token('acme', { claims: { channel_bytes: channel } })
  const { owner, channelId } = await channelWith(world, token(100_000))
  const older = token(100_000)
  assert.equal(await fill(owner, channelId), 7)
  await world.advance(2000)
  await Agent.connect(world.transport.wire('cbor'), { jwt: token(200_000) })
  assert.equal(await fill(owner, channelId, 8n), 7)
  await Agent.connect(world.transport.wire('cbor'), { jwt: older })
  await assert.rejects(owner.send(channelId, 1n, 15n, LARGE), refusal('queue_full'))
  assert.deepEqual(await owner.send(channelId, 1n, 15n).then(({ index }) => index), 16n)
})

test('a token whose room is not a number of bytes is invalid', async (t) => {
  const world = await openMemoryRelay(t)
  for (const claims of [{ channel_bytes: '1' }, { account_bytes: 0 }, { channel_bytes: 1.5 }]) {
    const jwt = world.api.token('acme', { claims })
    await assert.rejects(Agent.connect(world.transport.wire('cbor'), { jwt }), refusal('auth_failed'))
  }
})
