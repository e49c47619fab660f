import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { Agent, refusal } from '@static/testkit/agent'
import { openMemoryRelay } from '../support/memory-relay.ts'

/** Refused for what it is, after the rate was taken. */
const unsigned = (channelId: Uint8Array): object => ({
  channelId,
  slot: 0n,
  messageId: randomBytes(16),
  commit: randomBytes(9),
  declaration: {},
})

/** How many of so many commits are not put off. */
async function taken(agent: Agent, channelId: Uint8Array, count: number): Promise<number> {
  let passed = 0
  for (let at = 0; at < count; at++) {
    const code = await agent.request('sendCommit', unsigned(channelId)).then(
      () => 'ok',
      (error: { code: string }) => error.code,
    )
    if (code !== 'rate_limited') passed++
  }
  return passed
}

test('one channel per task: sixty channels at once are created and filled without a wait', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const guest = await Agent.connect(world.transport.wire('cbor'))
  for (let at = 0; at < 60; at++) {
    const channelId = await owner.createChannel(`acme/task/${at}`)
    await owner.commit(channelId, 0n)
    await owner.commit(channelId, 1n, { adds: [guest.id] })
  }
})

test('commits are limited per account across all channels, and per guest', async (t) => {
  const rates = { commitsBurst: 3, guestCommitsBurst: 2 }
  const world = await openMemoryRelay(t, { settings: { rates } })
  const wire = world.transport.wire('cbor')
  const [one, two] = [
    await Agent.connect(wire, { jwt: world.api.token('acme') }),
    await Agent.connect(wire, { jwt: world.api.token('acme') }),
  ]
  const other = await Agent.connect(wire, { jwt: world.api.token('other') })
  assert.equal(await taken(one, randomBytes(16), 2), 2)
  assert.equal(await taken(two, randomBytes(16), 2), 1)
  // Made-up channels have no shares of their own.
  assert.equal(await taken(one, randomBytes(16), 2), 0)
  assert.equal(await taken(other, randomBytes(16), 4), 3)
  for (let at = 0; at < 2; at++) assert.equal(await taken(await Agent.connect(wire), randomBytes(16), 3), 2)
})

test('when the members of a channel have used up its commits, the owner has a share left', async (t) => {
  const rates = { channelCommitsBurst: 4, ownCommitsBurst: 2, guestCommitsBurst: 100 }
  const world = await openMemoryRelay(t, { settings: { rates } })
  const wire = world.transport.wire('cbor')
  const owner = await Agent.connect(wire, { jwt: world.api.token('acme') })
  const guest = await Agent.connect(wire)
  const channelId = await owner.createChannel('acme/x/y')
  await owner.commit(channelId, 0n, { adds: [guest.id] })
  for (const agent of [owner, guest]) await agent.request('resume', { channelIds: [channelId] })
  assert.equal(await taken(guest, channelId, 20), 5, 'three of the channel, two of its own')
  await owner.commit(channelId, 1n)
  await owner.commit(channelId, 2n)
  await assert.rejects(owner.commit(channelId, 3n), refusal('rate_limited'))
  await world.advance(1000)
  await owner.commit(channelId, 3n)
})

test('agents that are not members cannot use up the commits of a channel', async (t) => {
  const rates = { channelCommitsBurst: 4, ownCommitsBurst: 1 }
  const world = await openMemoryRelay(t, { settings: { rates } })
  const wire = world.transport.wire('cbor')
  const owner = await Agent.connect(wire, { jwt: world.api.token('acme') })
  const guest = await Agent.connect(wire)
  const channelId = await owner.createChannel('acme/x/y')
  await owner.commit(channelId, 0n, { adds: [guest.id] })
  const stranger = await Agent.connect(wire)
  assert.equal(await taken(stranger, channelId, 10), 10)
  await assert.rejects(stranger.commit(channelId, 1n), refusal('not_found'))
  const welcome = { agentId: guest.id, welcome: randomBytes(9), inviteId: new Uint8Array(), tag: new Uint8Array() }
  for (let at = 0; at < 10; at++) {
    await assert.rejects(stranger.request('sendWelcome', { channelId, slot: 0n, welcome }), refusal('not_found'))
  }
  // Members share the rate, whether they read the channel in a session or not.
  await owner.commit(channelId, 1n)
  await guest.commit(channelId, 2n)
  await owner.request('resume', { channelIds: [channelId] })
  await owner.commit(channelId, 3n)
  await assert.rejects(guest.commit(channelId, 4n), refusal('rate_limited'))
  await owner.commit(channelId, 4n)
  await assert.rejects(owner.commit(channelId, 5n), refusal('rate_limited'))
})
