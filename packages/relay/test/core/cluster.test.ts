/** Several nodes over one store: what one does, the others know; with a bus, without it, and with a hostile one. */
import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import test from 'node:test'
import { joinProofBytes, toHex } from '@static/protocol'
import { CloseReason } from '@static/protocol/relay'
import { Agent, type AgentKey, makeKey, refusal, type Refused, sha256 } from '@static/testkit/agent'
import { admitJoiner, askToJoin, makeToken } from '../support/joining.ts'
import { makeKeyPackage } from '../support/key-package.ts'
import { type MemoryCluster, openMemoryCluster } from '../support/memory-cluster.ts'
import { type MemoryRelay, quiet } from '../support/memory-relay.ts'
import { UnaryAgent } from '../support/unary.ts'

const ENTRIES = ['deliverMessage', 'deliverCommit', 'deliverLeave']

async function connect(node: MemoryRelay, account?: string, key: AgentKey = makeKey()): Promise<Agent> {
  const jwt = account === undefined ? '' : node.api.token(account)
  const agent = await Agent.connect(node.transport.wire('cbor'), { key, jwt })
  await agent.request('resume', {})
  return agent
}

/** An owner at the first node, and one member at each of the others. */
async function channelOver({
  nodes: [one, two, three],
}: MemoryCluster): Promise<{ owner: Agent; bob: Agent; eve: Agent; channelId: Uint8Array }> {
  const owner = await connect(one, 'acme')
  const channelId = await owner.createChannel('acme/x/y')
  const [bob, eve] = [await connect(two), await connect(three, 'other')]
  await owner.commit(channelId, 0n, { adds: [bob.id, eve.id] })
  await quiet()
  for (const member of [bob, eve]) {
    assert.ok(
      member.pushes.some(({ body }) => body.case === 'deliverWelcome'),
      'its Welcome comes at once',
    )
    await member.request('resume', { channelIds: [channelId] })
  }
  await quiet()
  return { owner, bob, eve, channelId }
}

function indexes({ pushes }: Agent): number[] {
  return pushes.flatMap(({ body }) =>
    body.case && ENTRIES.includes(body.case) ? [Number((body.value as { index: bigint }).index)] : [],
  )
}

function cases({ pushes }: Agent): (string | undefined)[] {
  return pushes.map(({ body }) => body.case)
}

test('members at three nodes get every entry at once and in one order', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, eve, channelId } = await channelOver(cluster)
  await Promise.all([bob.send(channelId, 1n, 1n), eve.send(channelId, 1n, 1n), owner.send(channelId, 1n, 1n)])
  await owner.commit(channelId, 1n)
  await quiet()
  for (const member of [bob, eve]) assert.deepEqual(indexes(member), [2, 3, 4, 5])
  assert.deepEqual(indexes(owner), [1, 2, 3, 4, 5])
})

test('an entry too large for the bus is read from the log', async (t) => {
  const cluster = await openMemoryCluster(t, { maxBytes: 2000 })
  const { owner, bob, channelId } = await channelOver(cluster)
  await owner.send(channelId, 1n, 1n, randomBytes(4000))
  await quiet()
  assert.deepEqual(indexes(bob), [2])
})

test('messages that the bus loses are found within ten seconds, and within one without a bus', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, channelId } = await channelOver(cluster)
  cluster.bus.faults.drop = 1
  await owner.send(channelId, 1n, 1n)
  await quiet()
  assert.deepEqual(indexes(bob), [])
  for (let left = 10; left > 0; left--) await cluster.advance(1000)
  assert.deepEqual(indexes(bob), [2])
  assert.deepEqual(
    cluster.nodes.map((node) => node.catchUps()?.gaps),
    [0, 1, 1],
  )
  cluster.bus.connect(false)
  await cluster.advance(200)
  await owner.send(channelId, 1n, 2n)
  await cluster.advance(1000)
  assert.deepEqual(indexes(bob), [2, 3])
  await owner.send(channelId, 1n, 3n)
  cluster.bus.faults.drop = 0
  cluster.bus.connect(true)
  await cluster.advance(200)
  assert.deepEqual(indexes(bob), [2, 3, 4], 'at once when it is back')
})

test('an entry that a node writes but that is not on the bus is found within a second', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, channelId } = await channelOver(cluster)
  // The others hear each other, but no beat of the first one, which still uses the store.
  cluster.known.nodes = 3
  cluster.nodes[0].driver.tick = () => {}
  for (let left = 5; left > 0; left--) await cluster.advance(1000)
  for (const counter of [1n, 2n]) {
    cluster.bus.faults.drop = 1
    await owner.send(channelId, 1n, counter)
    await quiet()
    cluster.bus.faults.drop = 0
    await cluster.advance(1000)
    assert.equal(indexes(bob).at(-1), Number(counter) + 1)
  }
})

test('a node that dies between writing and telling is noticed by its silence', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, channelId } = await channelOver(cluster)
  await cluster.advance(1000)
  cluster.bus.faults.drop = 1
  await owner.send(channelId, 1n, 1n)
  await quiet()
  cluster.bus.faults.drop = 0
  // It no longer ticks, so it sends no beat.
  cluster.nodes[0].driver.tick = () => {}
  for (let left = 3; left > 0; left--) await cluster.advance(1000)
  assert.deepEqual(indexes(bob), [])
  await cluster.advance(1000)
  await cluster.advance(200)
  assert.deepEqual(indexes(bob), [2])
})

test('deletions, rejections, Welcomes and answers are found without the bus', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, eve, channelId } = await channelOver(cluster)
  cluster.bus.connect(false)
  await cluster.advance(200)
  const [, two] = cluster.nodes
  const late = await connect(two)
  await eve.commit(channelId, 1n, { adds: [late.id] })
  await cluster.advance(1000)
  assert.ok(cases(late).includes('deliverWelcome'))
  await owner.request('rejectCommit', { channelId, slot: 1n })
  await cluster.advance(1000)
  for (const agent of [bob, eve, late]) assert.ok(cases(agent).includes('commitRejected'), 'rejected')
  await owner.request('deleteChannel', { channel: { case: 'channelId', value: channelId } })
  await cluster.advance(1000)
  for (const agent of [bob, eve]) assert.equal(cases(agent).filter((one) => one === 'channelDeleted').length, 1)
  assert.equal(cases(bob).filter((one) => one === 'commitRejected').length, 1, 'once, however it was heard')
})

test('with the bus, each node hears of a rejection once, now and after the next round', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, eve, channelId } = await channelOver(cluster)
  await eve.commit(channelId, 1n)
  await owner.request('rejectCommit', { channelId, slot: 1n })
  await quiet()
  const rejections = (agent: Agent): number => cases(agent).filter((one) => one === 'commitRejected').length
  assert.deepEqual([owner, bob, eve].map(rejections), [1, 1, 1])
  for (let left = 11; left > 0; left--) await cluster.advance(1000)
  assert.deepEqual([owner, bob, eve].map(rejections), [1, 1, 1])
})

test('an agent has one session across all nodes: the older one is replaced, whenever its node hears of it', async (t) => {
  const cluster = await openMemoryCluster(t)
  const [one, two] = cluster.nodes
  const key = makeKey()
  const older = await connect(one, undefined, key)
  await cluster.advance(200)
  const before = cluster.bus.carried.length
  const newer = await connect(two, undefined, key)
  await quiet()
  assert.equal((await older.next('sessionClosing')).reason, CloseReason.REPLACED)
  await newer.request('resume', {})
  // The agent comes back to the first node, and what the second said of itself arrives once more, too late.
  await cluster.advance(200)
  const newest = await connect(one, undefined, key)
  await quiet()
  assert.equal((await newer.next('sessionClosing')).reason, CloseReason.REPLACED)
  for (const { subject, bytes } of cluster.bus.carried.slice(before)) cluster.bus.inject(subject, bytes)
  await quiet()
  await newest.request('resume', {})
  assert.ok(!cases(newest).includes('sessionClosing'))
})

test('a KeyPackage is fetched from the node that has it, once, and moves with its agent', async (t) => {
  const cluster = await openMemoryCluster(t, { settings: { rates: { claimsPerTargetPerMinute: 4 } } })
  const [one, two, three] = cluster.nodes
  const owner = await connect(one, 'bob')
  const channelId = await owner.createChannel('acme/x/y')
  const bob = await connect(two, 'bob')
  const seconds = Math.floor(one.now() / 1000)
  const fresh = (): Uint8Array =>
    makeKeyPackage(bob.key.publicKey, { notBefore: seconds - 60, notAfter: seconds + 86_400 })
  const keyPackages = [fresh(), fresh(), fresh()]
  await bob.request('uploadKeyPackage', { keyPackages })
  const claim = async (agentId = bob.id): Promise<string> => {
    const { keyPackage } = await owner.request('addMember', { channelId, agentId })
    return toHex(keyPackage)
  }
  const given = [await claim()]
  await cluster.advance(200)
  const again = await connect(three, 'bob', bob.key)
  await quiet()
  bob.close()
  await quiet()
  given.push(await claim())
  // Its agent is gone, and its KeyPackages are still there.
  again.close()
  await quiet()
  given.push(await claim())
  assert.deepEqual(new Set(given), new Set(keyPackages.map((bytes) => toHex(bytes))))
  // Nobody answers: a moment later there is none.
  const none = assert.rejects(claim(), refusal('key_package_unavailable'))
  await quiet()
  await cluster.advance(1000)
  await none
  for (const { subject, bytes } of cluster.bus.carried) cluster.bus.inject(subject, bytes)
  const still = assert.rejects(claim(), refusal('key_package_unavailable'))
  await quiet()
  await cluster.advance(1000)
  await still
})

test('the share of an account in the KeyPackages of an agent counts at the node that has them', async (t) => {
  const cluster = await openMemoryCluster(t, { settings: { rates: { claimsPerTargetPerMinute: 1 } } })
  const [one, two, three] = cluster.nodes
  const seconds = Math.floor(one.now() / 1000)
  const bob = await connect(two, 'bob')
  const fresh = (): Uint8Array =>
    makeKeyPackage(bob.key.publicKey, { notBefore: seconds - 60, notAfter: seconds + 86_400 })
  await bob.request('uploadKeyPackage', { keyPackages: Array.from({ length: 16 }, fresh) })
  const claim = async (node: typeof one, account: string, name: string): Promise<string> => {
    const owner = await connect(node, account)
    const channelId = await owner.createChannel(name)
    const claimed = owner.request('addMember', { channelId, agentId: bob.id })
    return await claimed.then(() => 'claimed').catch((error: unknown) => (error as Refused).code)
  }
  assert.equal(await claim(one, 'mal', 'mal/x/one'), 'claimed')
  assert.equal(await claim(three, 'mal', 'mal/x/three'), 'rate_limited')
  assert.equal(await claim(three, 'ann', 'ann/x/y'), 'claimed')
})

test('a joiner at one node asks, the owner at another polls and answers', async (t) => {
  const cluster = await openMemoryCluster(t)
  const [one, two] = cluster.nodes
  const owner = await connect(one, 'acme')
  const channelId = await owner.createChannel('acme/x/y')
  const token = { inviteId: new Uint8Array(randomBytes(16)), admissionKey: new Uint8Array(randomBytes(32)) }
  const expiresAtMs = BigInt(one.now() + 3_600_000)
  await owner.request('registerInvite', { channelId, ...token, expiresAtMs, maxUses: 1 })
  const bob = await connect(two)
  const box = randomBytes(100)
  const ask = (): Promise<unknown> => {
    const sessionNonce = bob.challenge?.nonce ?? new Uint8Array()
    const claim = joinProofBytes({ sessionNonce, inviteId: token.inviteId, agentId: bob.id, boxHash: sha256(box) })
    const proof = createHmac('sha256', token.admissionKey).update(claim).digest()
    return bob.request('requestJoin', { inviteId: token.inviteId, box, proof })
  }
  const poll = owner.request('pollJoinRequests', { channelId, waitMs: 60_000 })
  await quiet()
  await ask()
  assert.deepEqual(
    (await poll).requests.map(({ agentId }) => toHex(agentId)),
    [toHex(bob.id)],
  )
  await owner.request('answerJoin', { inviteId: token.inviteId, agentId: bob.id, code: 'identity_changed' })
  assert.equal((await bob.next('joinAnswered')).code, 'identity_changed')
  // Without the bus, the poll hears of it a second later.
  cluster.bus.connect(false)
  await cluster.advance(200)
  const later = owner.request('pollJoinRequests', { channelId, waitMs: 60_000 })
  await quiet()
  await ask()
  await cluster.advance(1000)
  assert.equal((await later).requests.length, 1)
})

test('a joiner asks at one node, and members that poll at others hear of it', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, eve, channelId } = await channelOver(cluster)
  const token = makeToken()
  const expiresAtMs = BigInt(cluster.nodes[0].now() + 3_600_000)
  await owner.request('registerInvite', { channelId, ...token, expiresAtMs, maxUses: 1, members: true })
  const [dave, frank] = [await connect(cluster.nodes[1]), await connect(cluster.nodes[1])]
  let after = 0n
  const ask = async (joiner: Agent, pause: number): Promise<void> => {
    const polls = [owner, eve].map((agent) => agent.request('pollJoinRequests', { channelId, waitMs: 60_000, after }))
    await quiet()
    await askToJoin(joiner, token, randomBytes(100))
    await cluster.advance(pause)
    for (const { requests, last } of await Promise.all(polls)) {
      assert.deepEqual(
        requests.map(({ agentId }) => toHex(agentId)),
        [toHex(joiner.id)],
      )
      after = last
    }
  }
  await ask(dave, 0)
  // Without the bus a second later.
  cluster.bus.connect(false)
  await cluster.advance(200)
  await ask(frank, 1000)
  await admitJoiner(eve, channelId, 1n, dave.id, token)
  await assert.rejects(admitJoiner(owner, channelId, 2n, frank.id, token), refusal('invite_used_up'))
  await owner.request('rejectCommit', { channelId, slot: 1n })
  await admitJoiner(owner, channelId, 2n, frank.id, token)
})

test('the challenge of a call works at any node, and only once', async (t) => {
  const cluster = await openMemoryCluster(t)
  const [one, two] = cluster.nodes
  const key = makeKey()
  const [here, there] = [new UnaryAgent(one, key), new UnaryAgent(two, key)]
  const challenge = await here.request('getChallenge', { revision: 2 })
  await there.answer(challenge)
  await assert.rejects(here.answer(challenge), refusal('auth_failed'))
  await assert.rejects(there.answer(challenge), refusal('auth_failed'))
})

test('entries that one node delivered can be acknowledged at another', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, channelId } = await channelOver(cluster)
  await owner.send(channelId, 1n, 1n)
  await quiet()
  assert.deepEqual(indexes(bob), [2])
  await cluster.advance(200)
  const again = await connect(cluster.nodes[2], undefined, bob.key)
  await again.request('ack', { positions: [{ channelId, index: 2n }] })
  const { channels } = await again.request('resume', { channelIds: [channelId] })
  assert.equal(channels[0]?.cursor?.index, 2n)
})

test('forged, redirected, old and endless messages on the bus change nothing', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, channelId } = await channelOver(cluster)
  await owner.send(channelId, 1n, 1n)
  await quiet()
  const all = [...cluster.bus.carried]
  const own = all.filter(({ subject }) => subject.endsWith(`c.${toHex(channelId)}`))
  assert.ok(own.length > 0)
  const seen = cases(bob).length
  for (const { subject, bytes } of own) {
    // Said again, to somebody else, with a bit changed, cut off.
    cluster.bus.inject(subject, bytes)
    for (const other of all) cluster.bus.inject(other.subject, bytes)
    for (const at of [0, 1, 40, 60, bytes.length - 1]) cluster.bus.inject(subject, bytes.with(at, bytes[at]! ^ 1))
    cluster.bus.inject(subject, bytes.subarray(0, 30))
  }
  await quiet()
  assert.equal(cases(bob).length, seen)
  for (let left = 2000; left > 0; left--) cluster.bus.inject(own[0]!.subject, new Uint8Array(100))
  await quiet()
  // It listens no longer, and finds everything in the store.
  await owner.send(channelId, 1n, 2n)
  await cluster.advance(1000)
  assert.deepEqual(indexes(bob), [2, 3])
})

test('a node sends its sessions elsewhere once its store has been gone for eight seconds, and not before', async (t) => {
  const cluster = await openMemoryCluster(t)
  const [one, two] = cluster.nodes
  const [here, there] = [await connect(one), await connect(two)]
  cluster.broken.set(0, 0)
  for (let left = 7; left > 0; left--) await cluster.advance(1000)
  cluster.broken.delete(0)
  await cluster.advance(1000)
  cluster.broken.set(0, 0)
  for (let left = 8; left > 0; left--) await cluster.advance(1000)
  assert.deepEqual([cases(here), cases(there)], [[], []])
  await cluster.advance(1000)
  assert.equal((await here.next('sessionClosing')).reason, CloseReason.SHUTDOWN)
  assert.deepEqual(cases(there), [])
})

test('the time before a silent store counts as lost is part of the eight seconds', async (t) => {
  const cluster = await openMemoryCluster(t)
  const here = await connect(cluster.nodes[0])
  cluster.broken.set(0, 4000)
  for (let left = 4; left > 0; left--) await cluster.advance(1000)
  assert.deepEqual(cases(here), [])
  await cluster.advance(1000)
  assert.deepEqual(cases(here), ['sessionClosing'])
})

test('a late event of another node does not end a newer membership', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, channelId } = await channelOver(cluster)
  const before = cluster.bus.carried.length
  cluster.bus.faults.drop = 1
  await owner.commit(channelId, 1n, { removes: [bob.id] })
  await owner.commit(channelId, 2n, { adds: [bob.id] })
  for (let left = 10; left > 0; left--) await cluster.advance(1000)
  await bob.request('resume', { channelIds: [channelId] })
  await quiet()
  cluster.bus.faults.drop = 0
  // Now the removal and the commit that added it again arrive.
  for (const { subject, bytes } of cluster.bus.carried.slice(before)) cluster.bus.inject(subject, bytes)
  await quiet()
  await owner.send(channelId, 3n, 1n)
  await quiet()
  assert.equal(indexes(bob).at(-1), 4)
})

for (const how of ['the next entry', 'its own Resume'] as const) {
  test(`a member that was added again unnoticed gets its Welcome first, found by ${how}`, async (t) => {
    const cluster = await openMemoryCluster(t)
    const { owner, bob, channelId } = await channelOver(cluster)
    const resume = (): Promise<unknown> => bob.request('resume', { channelIds: [channelId] })
    const before = bob.pushes.length
    cluster.bus.faults.drop = 1
    await owner.commit(channelId, 1n, { removes: [bob.id] })
    await owner.commit(channelId, 2n, { adds: [bob.id] })
    if (how === 'the next entry') cluster.bus.faults.drop = 0
    await owner.send(channelId, 3n, 1n)
    await quiet()
    if (how === 'the next entry') assert.deepEqual(cases(bob).slice(before), ['deliverWelcome'])
    await resume()
    await quiet()
    assert.deepEqual(cases(bob).slice(before), ['deliverWelcome', 'deliverMessage'])
  })
}

test('a node that has just started misses nothing', async (t) => {
  const cluster = await openMemoryCluster(t, { isNew: true })
  const [one, two] = cluster.nodes
  const owner = await connect(one, 'acme')
  const channelId = await owner.createChannel('acme/x/y')
  const bob = await connect(two, 'bob')
  await owner.commit(channelId, 0n, { adds: [bob.id] })
  await bob.request('resume', { channelIds: [channelId] })
  await quiet()
  assert.ok(cases(bob).includes('deliverWelcome'))
  await bob.commit(channelId, 1n)
  // No node knows of another one yet, so none tells.
  await owner.request('rejectCommit', { channelId, slot: 1n })
  for (let left = 10; left > 0; left--) await cluster.advance(1000)
  assert.ok(cases(bob).includes('commitRejected'))
})

test('a message that was stored though the store could not say so reaches all, is charged, and is answered', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, eve, channelId } = await channelOver(cluster)
  const [ciphertext, messageId] = [randomBytes(64), randomBytes(16)]
  const send = (): Promise<{ index: bigint }> => owner.send(channelId, 1n, 1n, ciphertext, messageId)
  await cluster.advance(200)
  cluster.unsure.add(0)
  await assert.rejects(send(), refusal('unavailable'))
  await cluster.advance(200)
  await cluster.advance(200)
  for (const member of [owner, bob, eve]) assert.equal(indexes(member).at(-1), 2)
  assert.equal((await send()).index, 2n)
  await quiet()
  for (const member of [owner, bob, eve]) assert.equal(indexes(member).at(-1), 2)
  for (const node of cluster.nodes) await node.driver.drain()
  assert.equal(cluster.nodes[0].api.spent.get('acme/live'), 1)
})

test('a node whose clock is wrong takes no new session, and keeps those it has', async (t) => {
  const cluster = await openMemoryCluster(t)
  const { owner, bob, channelId } = await channelOver(cluster)
  const [one] = cluster.nodes
  cluster.clockOffsets.set(0, -2001)
  await assert.rejects(connect(one, 'acme'), refusal('unavailable'))
  await owner.send(channelId, 1n, 1n)
  await cluster.advance(10_000)
  assert.deepEqual(indexes(bob), [2])
  assert.equal(cases(owner).includes('sessionClosing'), false)
  cluster.clockOffsets.set(0, 2000)
  await connect(one, 'acme')
})
