/** The relay's part in joining by an invite with which any member may admit. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { toHex } from '@static/protocol'
import { Agent, Refused, refusal } from '@static/testkit/agent'
import { admitJoiner, askToJoin, makeToken, type Token } from '../support/joining.ts'
import { openMemoryRelay, quiet, type MemoryRelay } from '../support/memory-relay.ts'

const DAY = 86_400_000

interface Scene {
  readonly world: MemoryRelay
  readonly owner: Agent
  readonly bob: Agent
  readonly carol: Agent
  readonly channelId: Uint8Array
}

/** A channel of three with accounts. */
async function scene(t: test.TestContext, settings: object = {}): Promise<Scene> {
  const world = await openMemoryRelay(t, { settings })
  const [owner, bob, carol] = await Promise.all(['acme', 'bob', 'carol'].map((account) => connect(world, account)))
  assert.ok(owner && bob && carol)
  const channelId = await owner.createChannel('acme/x/y')
  await owner.commit(channelId, 0n, { adds: [bob.id, carol.id] })
  return { world, owner, bob, carol, channelId }
}

async function connect(world: MemoryRelay, account?: string): Promise<Agent> {
  const jwt = account === undefined ? '' : world.api.token(account)
  const agent = await Agent.connect(world.transport.wire('cbor'), { jwt })
  await agent.request('resume', {})
  return agent
}

async function invite({ world, owner, channelId }: Scene, changes: object = {}): Promise<Token> {
  const token = makeToken()
  const expiresAtMs = BigInt(world.now() + 30 * DAY)
  await owner.request('registerInvite', { channelId, ...token, expiresAtMs, maxUses: 5, members: true, ...changes })
  return token
}

async function polled(agent: Agent, channelId: Uint8Array, waitMs = 0, after = 0n): Promise<string[]> {
  const { requests } = await agent.request('pollJoinRequests', { channelId, waitMs, after })
  return requests.map(({ agentId }) => toHex(agentId))
}

const ask = (agent: Agent, token: Token, size = 100): Promise<unknown> => askToJoin(agent, token, randomBytes(size))

test('a request wakes the polls of all members, and the one who commits first admits', async (t) => {
  const at = await scene(t)
  const { owner, bob, carol, channelId, world } = at
  const token = await invite(at, { maxUses: 1 })
  const [dave, erin] = [await connect(world), await connect(world)]
  const polls = [owner, bob, carol].map((agent) => polled(agent, channelId, 60_000))
  await quiet()
  await ask(dave, token)
  for (const found of await Promise.all(polls)) assert.deepEqual(found, [toHex(dave.id)])
  // The next wait is for the next joiner.
  const { last: after } = await bob.request('pollJoinRequests', { channelId })
  const next = polled(bob, channelId, 60_000, after)
  await quiet()
  await ask(erin, token)
  assert.deepEqual(await next, [toHex(erin.id)])
  await admitJoiner(bob, channelId, 1n, dave.id, token)
  await dave.next('deliverWelcome')
  await assert.rejects(admitJoiner(carol, channelId, 1n, dave.id, token), refusal('epoch_mismatch'))
  await assert.rejects(admitJoiner(carol, channelId, 2n, erin.id, token), refusal('invite_used_up'))
  await assert.rejects(ask(await connect(world), token), refusal('invite_used_up'))
  // Its Welcome is pending: nobody is asked again.
  await ask(dave, token)
  assert.deepEqual(await polled(carol, channelId), [toHex(erin.id)])
  // The owner finds the commit invalid: the use is returned, and another member may take it.
  await owner.request('rejectCommit', { channelId, slot: 1n })
  await admitJoiner(carol, channelId, 2n, erin.id, token)
  await erin.next('deliverWelcome')
})

test('a request waits for weeks, until its invite expires', async (t) => {
  const at = await scene(t)
  const { bob, channelId, world } = at
  const dave = await connect(world)
  await ask(dave, await invite(at))
  dave.close()
  // A day later, without a session in between.
  bob.close()
  await world.advance(DAY)
  await world.store.run('sweep', { now: world.now() })
  const again = await Agent.connect(world.transport.wire('cbor'), { key: bob.key, jwt: world.api.token('bob') })
  assert.deepEqual(await polled(again, channelId, 60_000), [toHex(dave.id)])
  await world.advance(29 * DAY)
  const last = await Agent.connect(world.transport.wire('cbor'), { key: bob.key, jwt: world.api.token('bob') })
  assert.deepEqual(await polled(last, channelId), [])
})

test('a member that asks again is forgotten after 10 minutes', async (t) => {
  const at = await scene(t)
  const { bob, carol, channelId, world } = at
  const token = await invite(at)
  await ask(carol, token)
  assert.deepEqual(await polled(bob, channelId), [toHex(carol.id)], 'its pending Welcome is not for an invite')
  await world.advance(600_000)
  assert.deepEqual(await polled(bob, channelId), [])
})

test('guests and strangers neither poll nor admit, and only the owner refuses', async (t) => {
  const at = await scene(t)
  const { owner, bob, channelId, world } = at
  const token = await invite(at)
  const [dave, guest, stranger] = [await connect(world), await connect(world), await connect(world, 'other')]
  await owner.commit(channelId, 1n, { adds: [guest.id] })
  await ask(dave, token)
  await assert.rejects(polled(guest, channelId), refusal('api_key_required'))
  assert.deepEqual(await polled(stranger, channelId), [])
  await assert.rejects(admitJoiner(guest, channelId, 2n, dave.id, token), refusal('api_key_required'))
  await assert.rejects(admitJoiner(stranger, channelId, 2n, dave.id, token), refusal('not_found'))
  const answer = { inviteId: token.inviteId, agentId: dave.id, code: 'group_full' }
  await assert.rejects(bob.request('answerJoin', answer), refusal('not_found'))
  assert.deepEqual(await polled(bob, channelId), [toHex(dave.id)])
  await owner.request('answerJoin', answer)
  assert.equal((await dave.next('joinAnswered')).code, 'group_full')
  assert.deepEqual(await polled(bob, channelId), [])
})

test('64 agents wait for one invite, and their boxes leave half of the room to other invites', async (t) => {
  const at = await scene(t, { rates: { joinsPerMinute: 600 } })
  const { channelId, owner, world } = at
  const [token, large, other] = [await invite(at), await invite(at), await invite(at)]
  const joiners = await Promise.all(Array.from({ length: 65 }, () => connect(world)))
  const [last, ...first] = joiners as [Agent, ...Agent[]]
  for (const agent of first) await ask(agent, token)
  await assert.rejects(ask(last, token), refusal('rate_limited'))
  assert.equal((await polled(owner, channelId)).length, 64)
  // 2 MiB for all, 64 * 600 bytes of it for the first invite. What one invite has counts twice.
  const count = Math.floor((2_097_152 - 64 * 600 - 16_884) / (2 * 16_884)) + 1
  for (const agent of first.slice(0, count)) await ask(agent, large, 16_384)
  await assert.rejects(ask(last, large, 16_384), refusal('rate_limited'))
  await ask(last, other, 16_384)
})

test('the requests with one invite are limited per minute, because each goes to all members', async (t) => {
  const at = await scene(t, { rates: { joinsPerMinute: 2 } })
  const { world } = at
  const token = await invite(at)
  for (let left = 2; left > 0; left--) await ask(await connect(world), token)
  const late = await connect(world)
  await assert.rejects(ask(late, token), (error) => {
    return error instanceof Refused && error.code === 'rate_limited' && error.refusal.retryAfterMs === 30_000
  })
  await ask(late, await invite(at))
  await world.advance(30_000)
})

test('successive polls return a request once, however often and large', async (t) => {
  const at = await scene(t)
  const { bob, owner, channelId, world } = at
  const token = await invite(at)
  const [dave, erin] = [await connect(world), await connect(world)]
  await ask(dave, token, 16_384)
  await ask(erin, token, 16_384)
  const first = await bob.request('pollJoinRequests', { channelId, limit: 1 })
  const second = await bob.request('pollJoinRequests', { channelId, waitMs: 25_000, after: first.last })
  assert.deepEqual(
    [...first.requests, ...second.requests].map(({ agentId }) => toHex(agentId)),
    [toHex(dave.id), toHex(erin.id)],
  )
  const { last: after } = second
  const waiting = bob.request('pollJoinRequests', { channelId, waitMs: 25_000, after })
  await quiet()
  await world.advance(25_000)
  const numbers = [first, second].flatMap(({ requests }) => requests.map(({ number }) => number))
  const empty = await waiting
  assert.deepEqual([empty.requests, empty.last, empty.pending], [[], after, numbers])
  // What is no longer waiting is not pending.
  await owner.request('answerJoin', { inviteId: token.inviteId, agentId: dave.id, code: 'group_full' })
  assert.deepEqual((await bob.request('pollJoinRequests', { channelId, after })).pending, numbers.slice(1))
})

test('a large request counts once per 2 KiB, and a poll once', async (t) => {
  const at = await scene(t, { rates: { joinsPerMinute: 10, pollsPerMinute: 3 } })
  const { bob, channelId, world } = at
  const token = await invite(at)
  await ask(await connect(world), token, 16_384)
  await assert.rejects(ask(await connect(world), token, 5000), refusal('rate_limited'))
  await ask(await connect(world), token, 4096)
  for (let left = 3; left > 0; left--) await polled(bob, channelId)
  await assert.rejects(polled(bob, channelId), (error) => {
    return error instanceof Refused && error.code === 'rate_limited' && error.refusal.retryAfterMs === 20_000
  })
  await world.advance(20_000)
  await polled(bob, channelId)
})
