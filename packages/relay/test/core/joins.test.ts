/** The relay's part in joining by invite: who may ask, who hears of it, and when a request is forgotten. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { toHex } from '@static/protocol'
import { Agent, Refused } from '@static/testkit/agent'
import { refusal } from '@static/testkit/agent'
import { admitJoiner, askToJoin, joinProof, makeToken, type Token } from '../support/joining.ts'
import { UnaryAgent } from '../support/unary.ts'
import { openMemoryRelay, quiet, type MemoryRelay } from '../support/memory-relay.ts'

const HOUR = 3_600_000

interface Scene {
  readonly world: MemoryRelay
  readonly owner: Agent
  readonly channelId: Uint8Array
}

async function scene(t: test.TestContext, settings: object = {}): Promise<Scene> {
  const world = await openMemoryRelay(t, { settings })
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  return { world, owner, channelId: await owner.createChannel('acme/x/y') }
}

async function invite({ world, owner, channelId }: Scene, changes: object = {}): Promise<Token> {
  const token = makeToken()
  const expiresAtMs = BigInt(world.now() + HOUR)
  await owner.request('registerInvite', { channelId, ...token, expiresAtMs, maxUses: 1, ...changes })
  return token
}

function proof(agent: Agent, token: Token, box: Uint8Array): Uint8Array {
  return joinProof({ nonce: agent.challenge?.nonce, id: agent.id }, token, box)
}

async function joiner({ world }: Scene): Promise<Agent> {
  const agent = await Agent.connect(world.transport.wire('protobuf'))
  await agent.request('resume', {})
  return agent
}

async function polled(agent: Agent, channelId: Uint8Array, more: object = {}): Promise<string[]> {
  const { requests } = await agent.request('pollJoinRequests', { channelId, ...more })
  return requests.map(({ agentId }) => toHex(agentId))
}

test('a joiner with the token asks, the owner polls, commits, and the joiner gets its Welcome', async (t) => {
  const at = await scene(t)
  const { owner, channelId } = at
  const token = await invite(at)
  const bob = await joiner(at)
  const box = randomBytes(500)
  await askToJoin(bob, token, box)
  const { requests } = await owner.request('pollJoinRequests', { channelId })
  assert.equal(requests.length, 1)
  assert.deepEqual(Buffer.from(requests[0]?.box ?? []), box)
  assert.deepEqual(Buffer.from(requests[0]?.inviteId ?? []), Buffer.from(token.inviteId))
  assert.equal(toHex(requests[0]?.agentId ?? new Uint8Array()), toHex(bob.id))

  const tag = randomBytes(32)
  await admitJoiner(owner, channelId, 0n, bob.id, token, tag)
  const welcome = await bob.next('deliverWelcome')
  assert.deepEqual(Buffer.from(welcome.welcome?.tag ?? []), tag)
  assert.deepEqual(Buffer.from(welcome.welcome?.inviteId ?? []), Buffer.from(token.inviteId))
  assert.deepEqual(await polled(owner, channelId), [], 'the request is forgotten')
  await assert.rejects(askToJoin(await joiner(at), token), refusal('invite_used_up'))
})

test('an agent that was added with the last use can ask again until it has its Welcome', async (t) => {
  const at = await scene(t)
  const { owner, channelId } = at
  const token = await invite(at)
  const bob = await joiner(at)
  await askToJoin(bob, token)
  await admitJoiner(owner, channelId, 0n, bob.id, token)
  const { position } = await bob.next('deliverWelcome')
  await askToJoin(bob, token)
  assert.deepEqual(await polled(owner, channelId), [])
  await assert.rejects(askToJoin(await joiner(at), token), refusal('invite_used_up'))
  await bob.request('ack', { positions: [{ channelId, index: position?.index ?? 0n }] })
  await assert.rejects(askToJoin(bob, token), refusal('invite_used_up'))
})

test('without the token, no request reaches the owner', async (t) => {
  const at = await scene(t)
  const { owner, channelId } = at
  const token = await invite(at)
  const bob = await joiner(at)
  const eve = await joiner(at)
  const box = randomBytes(100)
  const wrong = { ...token, admissionKey: randomBytes(32) }
  await assert.rejects(askToJoin(bob, wrong), refusal('invite_invalid'))
  await assert.rejects(askToJoin(bob, token, box, proof(eve, token, box)), refusal('invite_invalid'), "another's")
  await assert.rejects(askToJoin(bob, token, box, proof(bob, token, randomBytes(9))), refusal('invite_invalid'))
  await assert.rejects(askToJoin(bob, token, box, new Uint8Array()), refusal('invite_invalid'))
  const old = proof(bob, token, box)
  const again = await Agent.connect(at.world.transport.wire('cbor'), { key: bob.key })
  await assert.rejects(askToJoin(again, token, box, old), refusal('invite_invalid'), 'of another session')
  await assert.rejects(askToJoin(again, { ...token, inviteId: randomBytes(16) }), refusal('invite_invalid'), 'unknown')
  assert.deepEqual(await polled(owner, channelId), [])
})

test('expired, revoked and used-up invites are reported as such, but only to holders of the token', async (t) => {
  const at = await scene(t)
  const { owner, world } = at
  const token = await invite(at)
  const short = await invite(at, { expiresAtMs: BigInt(world.now() + 1000) })
  const bob = await joiner(at)
  await world.advance(1000)
  await assert.rejects(askToJoin(bob, short), refusal('invite_expired'))
  await owner.request('revokeInvite', { inviteId: token.inviteId })
  await assert.rejects(askToJoin(bob, token), refusal('invite_revoked'))
  await assert.rejects(askToJoin(bob, { ...token, admissionKey: randomBytes(32) }), refusal('invite_invalid'))
})

test('fields of an invite and of a request are checked', async (t) => {
  const at = await scene(t)
  const { owner, world, channelId } = at
  const now = BigInt(world.now())
  for (const changes of [
    { admissionKey: randomBytes(31) },
    { inviteId: randomBytes(15) },
    { channelId: randomBytes(15) },
    { expiresAtMs: now },
    { expiresAtMs: now + 400n * 86_400_000n },
    { expiresAtMs: 2n ** 63n },
    { maxUses: 0 },
    { boxKey: randomBytes(2049) },
    { boxKey: randomBytes(9), members: true },
  ]) {
    await assert.rejects(invite(at, changes), refusal('invalid_request'))
  }
  const token = await invite(at)
  const bob = await joiner(at)
  await assert.rejects(askToJoin(bob, token, new Uint8Array()), refusal('invite_invalid'))
  await assert.rejects(askToJoin(bob, token, randomBytes(16_385)), refusal('invalid_request'))
  await assert.rejects(askToJoin(bob, { ...token, inviteId: randomBytes(3) }), refusal('invalid_request'))
  await askToJoin(bob, token, randomBytes(16_384))
  const answer = { inviteId: token.inviteId, agentId: bob.id, code: 'quota_exceeded' }
  await assert.rejects(owner.request('answerJoin', answer), refusal('invalid_request'))
  await assert.rejects(owner.request('pollJoinRequests', { channelId: randomBytes(1) }), refusal('invalid_request'))
  assert.equal((await polled(owner, channelId)).length, 1)
})

test('a joiner with the token gets the key for its box, which stores nothing', async (t) => {
  const at = await scene(t)
  const { owner, channelId } = at
  const boxKey = new Uint8Array(randomBytes(1217))
  const token = await invite(at, { boxKey })
  const bob = await joiner(at)
  const empty = new Uint8Array()
  assert.deepEqual(await askToJoin(bob, token, empty), await askToJoin(bob, token, empty))
  const answer = (await askToJoin(bob, token, empty)) as { readonly boxKey: Uint8Array }
  assert.deepEqual(Uint8Array.from(answer.boxKey), boxKey)
  assert.deepEqual(await polled(owner, channelId), [])
  // Registered again: the key stays, because tokens have its hash.
  await owner.request('registerInvite', {
    channelId,
    ...token,
    expiresAtMs: BigInt(at.world.now() + HOUR),
    maxUses: 2,
    boxKey: randomBytes(1217),
  })
  assert.deepEqual(await askToJoin(bob, token, empty), answer)
  await assert.rejects(askToJoin(bob, { ...token, admissionKey: randomBytes(32) }, empty), refusal('invite_invalid'))
  await askToJoin(bob, token)
  assert.deepEqual(await polled(owner, channelId), [toHex(bob.id)])
  await owner.request('revokeInvite', { inviteId: token.inviteId })
  await assert.rejects(askToJoin(bob, token, empty), refusal('invite_revoked'))
})

test('only members with an account can register invites, and guests cannot poll, answer or revoke', async (t) => {
  const at = await scene(t)
  const { world, channelId } = at
  const stranger = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('other') })
  await assert.rejects(invite({ ...at, owner: stranger }), refusal('not_found'))
  const guest = await joiner(at)
  await assert.rejects(invite({ ...at, owner: guest }), refusal('api_key_required'))
  await assert.rejects(polled(guest, channelId), refusal('api_key_required'))
  const none = { inviteId: randomBytes(16), agentId: randomBytes(32), code: 'invite_invalid' }
  await assert.rejects(guest.request('answerJoin', none), refusal('api_key_required'))
  await assert.rejects(guest.request('revokeInvite', { inviteId: randomBytes(16) }), refusal('api_key_required'))
})

test('a poll returns immediately if a joiner is waiting', async (t) => {
  const at = await scene(t)
  const { owner, channelId } = at
  const token = await invite(at)
  const bob = await joiner(at)
  assert.deepEqual(await polled(owner, channelId), [], 'nobody, and no time to wait')
  await askToJoin(bob, token)
  assert.deepEqual(await polled(owner, channelId, { waitMs: 60_000 }), [toHex(bob.id)])
})

test('a poll waits for the first joiner, but no longer than requested', async (t) => {
  const at = await scene(t)
  const { owner, channelId, world } = at
  const token = await invite(at)
  const bob = await joiner(at)
  const first = polled(owner, channelId, { waitMs: 10_000 })
  await quiet()
  await askToJoin(bob, token)
  assert.deepEqual(await first, [toHex(bob.id)])
  const { last: after } = await owner.request('pollJoinRequests', { channelId })
  let over = false
  const second = polled(owner, channelId, { waitMs: 10_000, after }).then((found) => {
    over = true
    return found
  })
  await world.advance(9999)
  assert.equal(over, false, 'who was given already does not end the wait')
  await world.advance(1)
  assert.deepEqual(await second, [])
  const longest = polled(owner, channelId, { waitMs: 4_000_000, after })
  await world.advance(60_000)
  await longest
})

test('an owner that reconnects immediately gets the joiners that were delivered to its lost session', async (t) => {
  const at = await scene(t)
  const { owner, channelId, world } = at
  const bob = await joiner(at)
  await askToJoin(bob, await invite(at))
  await polled(owner, channelId, { waitMs: 60_000 })
  owner.close()
  const again = await Agent.connect(world.transport.wire('cbor'), { key: owner.key, jwt: world.api.token('acme') })
  assert.deepEqual(await polled(again, channelId, { waitMs: 60_000 }), [toHex(bob.id)])
})

test('a poll whose stream has ended is dropped, and the joiner goes to the next poll', async (t) => {
  const at = await scene(t)
  const { owner, channelId, world } = at
  const token = await invite(at)
  const bob = await joiner(at)
  owner.request('pollJoinRequests', { channelId, waitMs: 60_000 }).catch(() => {})
  await quiet()
  owner.close()
  assert.equal(world.driver.counts.requests, 0)
  await askToJoin(bob, token)
  const again = await Agent.connect(world.transport.wire('cbor'), { key: owner.key, jwt: world.api.token('acme') })
  assert.deepEqual(await polled(again, channelId, { waitMs: 60_000 }), [toHex(bob.id)])
})

test('only the agent that registered an invite can poll, answer and revoke it', async (t) => {
  const at = await scene(t)
  const { owner, channelId, world } = at
  const member = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  await owner.commit(channelId, 0n, { adds: [member.id] })
  const token = await invite(at)
  const bob = await joiner(at)
  await askToJoin(bob, token)
  assert.deepEqual(await polled(member, channelId), [])
  const answer = { inviteId: token.inviteId, agentId: bob.id, code: 'group_full' }
  await assert.rejects(member.request('answerJoin', answer), refusal('not_found'))
  await assert.rejects(member.request('revokeInvite', { inviteId: token.inviteId }), refusal('not_found'))
  const taken = { channelId, ...token, expiresAtMs: BigInt(world.now() + HOUR), maxUses: 5 }
  await assert.rejects(member.request('registerInvite', taken), refusal('not_allowed'))
  await owner.request('answerJoin', answer)
  const told = await bob.next('joinAnswered')
  assert.equal(told.code, 'group_full')
  assert.equal(toHex(told.inviteId), toHex(token.inviteId))
  await assert.rejects(owner.request('answerJoin', answer), refusal('not_found'), 'it is answered')
})

test('a joiner can withdraw its request, but no one else can', async (t) => {
  const at = await scene(t)
  const { owner, channelId } = at
  const token = await invite(at, { maxUses: 5 })
  const [bob, carol] = [await joiner(at), await joiner(at)]
  for (const agent of [bob, carol]) await askToJoin(agent, token)
  const answer = { inviteId: token.inviteId, agentId: bob.id, code: 'invite_invalid' }
  await assert.rejects(carol.request('answerJoin', answer), refusal('api_key_required'))
  await bob.request('answerJoin', answer)
  assert.deepEqual(await polled(owner, channelId), [toHex(carol.id)])
  await assert.rejects(bob.request('answerJoin', answer), refusal('not_found'))
})

test('a joiner may withdraw its requests as often as it may make them', async (t) => {
  const at = await scene(t)
  const bob = await joiner(at)
  const answer = { inviteId: randomBytes(16), agentId: bob.id, code: 'invite_invalid' }
  const refusals = await Promise.all(
    Array.from({ length: 61 }, () => bob.request('answerJoin', answer).catch(({ code }: { code: string }) => code)),
  )
  assert.equal(refusals.filter((code) => code === 'not_found').length, 60)
  assert.equal(refusals.filter((code) => code === 'rate_limited').length, 1)
})

test('a revocation answers all waiting joiners', async (t) => {
  const at = await scene(t)
  const { owner, channelId } = at
  const token = await invite(at, { maxUses: 5 })
  const waiting = [await joiner(at), await joiner(at)]
  for (const agent of waiting) await askToJoin(agent, token)
  await owner.request('revokeInvite', { inviteId: token.inviteId })
  for (const agent of waiting) assert.equal((await agent.next('joinAnswered')).code, 'invite_revoked')
  assert.deepEqual(await polled(owner, channelId), [])
})

test('an invite is deleted with its channel, and waiting joiners are notified', async (t) => {
  const at = await scene(t)
  const token = await invite(at)
  const bob = await joiner(at)
  await askToJoin(bob, token)
  await at.owner.request('deleteChannel', { channel: { case: 'channelId', value: at.channelId } })
  assert.equal((await bob.next('joinAnswered')).code, 'invite_invalid')
  await assert.rejects(askToJoin(bob, token), refusal('invite_invalid'))
})

test('a repeated request replaces the first one, and expires after 10 minutes', async (t) => {
  const at = await scene(t)
  const { owner, channelId, world } = at
  const token = await invite(at)
  const bob = await joiner(at)
  await askToJoin(bob, token)
  const box = randomBytes(77)
  await askToJoin(bob, token, box)
  const { requests } = await owner.request('pollJoinRequests', { channelId })
  assert.deepEqual(
    requests.map((request) => Buffer.from(request.box)),
    [box],
  )
  await world.advance(599_999)
  assert.equal((await polled(owner, channelId)).length, 1)
  await world.advance(1)
  assert.equal((await polled(owner, channelId)).length, 0)
})

test('a joiner that uses unary calls proves the nonce of its token', async (t) => {
  const at = await scene(t)
  const token = await invite(at)
  const bob = new UnaryAgent(at.world)
  await bob.open()
  const [payload = ''] = bob.token.split('.')
  const { n } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { n: string }
  const box = randomBytes(9)
  const proved = joinProof({ nonce: Buffer.from(n, 'hex'), id: bob.key.id }, token, box)
  await bob.request('requestJoin', { inviteId: token.inviteId, box, proof: proved })
  assert.deepEqual(await polled(at.owner, at.channelId), [toHex(bob.key.id)])
})

test('limits: requests per invite, per agent and minute, invites per channel, requests per poll', async (t) => {
  const settings = { counts: { joinsPerInvite: 3, invitesPerChannel: 2 }, rates: { joinsPerMinute: 4 } }
  const at = await scene(t, settings)
  const { owner, channelId } = at
  const token = await invite(at, { maxUses: 99 })
  await invite(at)
  await assert.rejects(invite(at), refusal('rate_limited'))
  const joiners = [await joiner(at), await joiner(at), await joiner(at)]
  for (const agent of joiners) await askToJoin(agent, token)
  await assert.rejects(askToJoin(await joiner(at), token), refusal('rate_limited'))
  const [first] = joiners as [Agent]
  for (let more = 0; more < 3; more++) await askToJoin(first, token)
  await assert.rejects(askToJoin(first, token), (error) => {
    return error instanceof Refused && error.code === 'rate_limited' && error.refusal.retryAfterMs === 15_000
  })
  const two = await polled(owner, channelId, { limit: 2 })
  assert.equal(two.length, 2)
  const { last: after } = await owner.request('pollJoinRequests', { channelId, limit: 2 })
  const [third, ...others] = await polled(owner, channelId, { limit: 3, after })
  assert.ok(third && !two.includes(third))
  assert.deepEqual(others, [], 'each is given once')
})

test('registrations and revocations of invites are limited per agent', async (t) => {
  const at = await scene(t, { rates: { invitesPerMinute: 3 } })
  const token = await invite(at)
  await at.owner.request('revokeInvite', { inviteId: token.inviteId })
  await invite(at)
  const isLimited = (error: unknown): boolean =>
    error instanceof Refused && error.code === 'rate_limited' && error.refusal.retryAfterMs === 20_000
  await assert.rejects(invite(at), isLimited)
  await assert.rejects(at.owner.request('revokeInvite', { inviteId: token.inviteId }), isLimited)
  await at.world.advance(20_000)
  await invite(at)
})

test('answers to joiners are limited per agent, apart from registrations and revocations', async (t) => {
  const at = await scene(t, { rates: { invitesPerMinute: 3 } })
  const { owner } = at
  const token = await invite(at)
  const none = { inviteId: token.inviteId, agentId: randomBytes(32), code: 'invite_invalid' }
  for (let more = 0; more < 3; more++) await assert.rejects(owner.request('answerJoin', none), refusal('not_found'))
  await assert.rejects(owner.request('answerJoin', none), (error) => {
    return error instanceof Refused && error.code === 'rate_limited' && error.refusal.retryAfterMs === 20_000
  })
  await owner.request('revokeInvite', { inviteId: token.inviteId })
  await invite(at)
  await at.world.advance(20_000)
  await assert.rejects(owner.request('answerJoin', none), refusal('not_found'))
})

test('a poll after a number that no request can have is refused, and the relay serves on', async (t) => {
  const at = await scene(t)
  const { owner, channelId } = at
  for (const after of [2n ** 53n, 2n ** 64n - 1n]) {
    await assert.rejects(owner.request('pollJoinRequests', { channelId, after }), refusal('invalid_request'))
  }
  assert.deepEqual(await polled(owner, channelId), [])
})
