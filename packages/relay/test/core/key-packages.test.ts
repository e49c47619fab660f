/** KeyPackages: what is read of them, who uploads which, and that each is given out once. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { ClaimShares } from '../../src/core/channels/claim-shares.ts'
import type { Account } from '../../src/ports.ts'
import { readKeyPackage } from '../../src/core/channels/key-package-reader.ts'
import { KeyPackagePool } from '../../src/core/channels/key-package-pool.ts'
import { Agent, type AgentKey, makeKey, Refused } from '@static/testkit/agent'
import { makeKeyPackage, makeSealKey } from '../support/key-package.ts'
import { randomNumbers, SEED } from '@static/testkit/random'
import { refusal } from '@static/testkit/agent'
import { openMemoryRelay, quiet, type MemoryRelay } from '../support/memory-relay.ts'

const DAY = 86_400

async function scene(
  t: test.TestContext,
  settings: object = {},
): Promise<{
  world: MemoryRelay
  owner: Agent
  bob: Agent
  channelId: Uint8Array
  fresh: (key?: AgentKey) => Uint8Array
}> {
  const world = await openMemoryRelay(t, { settings })
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const bob = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('bob') })
  const channelId = await owner.createChannel('acme/x/y')
  const now = Math.floor(world.now() / 1000)
  const fresh = (key: AgentKey = bob.key): Uint8Array =>
    makeKeyPackage(key.publicKey, { notBefore: now - 60, notAfter: now + DAY })
  return { world, owner, bob, channelId, fresh }
}

/** Agents of these accounts, or guests, as members of the channel. */
async function members(
  { world, owner, channelId }: { world: MemoryRelay; owner: Agent; channelId: Uint8Array },
  accounts: readonly (string | undefined)[],
): Promise<Agent[]> {
  const agents: Agent[] = []
  for (const account of accounts) {
    const jwt = account === undefined ? '' : world.api.token(account)
    agents.push(await Agent.connect(world.transport.wire('cbor'), { jwt }))
  }
  await owner.commit(channelId, 0n, { adds: agents.map(({ id }) => id) })
  return agents
}

test('the signature key and the lifetime are read, and nothing else passes for a KeyPackage', () => {
  const key = makeKey().publicKey
  const whole = makeKeyPackage(key, { notBefore: 5, notAfter: 2 ** 40 })
  const facts = readKeyPackage(whole)
  assert.equal(Buffer.from(facts?.identity ?? []).toString(), 'somebody')
  assert.deepEqual(facts && { ...facts, identity: '', signatureKey: Buffer.from(facts.signatureKey) }, {
    signatureKey: Buffer.from(key),
    identity: '',
    extensions: [0xf57a, 0xf57c],
    sealable: true,
    longestList: 2,
    notBefore: 5,
    notAfter: 2 ** 40,
  })
  const altered = (at: number, value: number): Uint8Array => whole.with(at, value)
  assert.equal(readKeyPackage(altered(1, 2)), undefined, 'another version of MLS')
  assert.equal(readKeyPackage(altered(3, 3)), undefined, 'a Welcome')
  assert.equal(readKeyPackage(altered(5, 2)), undefined, 'another version of the KeyPackage')
  assert.equal(readKeyPackage(altered(7, 2)), undefined, 'another suite')
  assert.equal(readKeyPackage(new Uint8Array([...whole, 0])), undefined, 'a byte too many')
  assert.equal(readKeyPackage(new Uint8Array()), undefined)
})

test('a truncated KeyPackage is rejected, and no input makes the reader throw', (t) => {
  t.diagnostic(`seed ${SEED}`)
  const random = randomNumbers(SEED)
  const whole = makeKeyPackage(makeKey().publicKey)
  for (let length = 0; length < whole.length; length++)
    assert.equal(readKeyPackage(whole.subarray(0, length)), undefined)
  for (let at = 0; at < whole.length; at++) {
    for (const value of [0, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xff, Math.floor(random() * 256)]) {
      const facts = readKeyPackage(whole.with(at, value))
      if (facts) assert.ok(facts.signatureKey.length <= whole.length)
    }
  }
  for (let run = 0; run < 2000; run++) {
    const noise = whole.map((byte) => (random() < 0.05 ? Math.floor(random() * 256) : byte))
    readKeyPackage(noise.subarray(0, Math.floor(random() * (noise.length + 1))))
    readKeyPackage(randomBytes(Math.floor(random() * 300)))
  }
})

test('a member claims the KeyPackages of another agent, each one once, in upload order', async (t) => {
  const set = await scene(t)
  const { owner, bob, channelId, fresh } = set
  const uploaded = [fresh(), fresh(), fresh()]
  assert.equal((await bob.request('uploadKeyPackage', { keyPackages: uploaded })).held, 3)
  for (const agent of [owner, ...(await members(set, ['other', 'third']))]) {
    const { keyPackage } = await agent.request('addMember', { channelId, agentId: bob.id })
    assert.deepEqual(Buffer.from(keyPackage), Buffer.from(uploaded.shift() ?? assert.fail()))
  }
  await assert.rejects(owner.request('addMember', { channelId, agentId: bob.id }), refusal('key_package_unavailable'))
})

test('only a member with an account can claim one, of an agent that exists', async (t) => {
  const { world, owner, bob, channelId, fresh } = await scene(t)
  await bob.request('uploadKeyPackage', { keyPackages: [fresh()] })
  await assert.rejects(bob.request('addMember', { channelId, agentId: bob.id }), refusal('not_found'))
  const guest = await Agent.connect(world.transport.wire('cbor'))
  await owner.commit(channelId, 0n, { adds: [guest.id] })
  await assert.rejects(guest.request('addMember', { channelId, agentId: bob.id }), refusal('api_key_required'))
  await assert.rejects(
    guest.request('uploadKeyPackage', { keyPackages: [fresh(guest.key)] }),
    refusal('api_key_required'),
  )
  const nobody = randomBytes(32)
  await assert.rejects(owner.request('addMember', { channelId, agentId: nobody }), refusal('key_package_unavailable'))
  await assert.rejects(owner.request('addMember', { channelId, agentId: randomBytes(31) }), refusal('invalid_request'))
  await owner.request('addMember', { channelId, agentId: bob.id })
})

test('a KeyPackage that is malformed, too long, of another key or expired is invalid_request, and nothing of the upload is kept', async (t) => {
  const { world, bob, fresh } = await scene(t)
  const now = Math.floor(world.now() / 1000)
  const bad = [
    randomBytes(100),
    new Uint8Array(),
    fresh().subarray(0, 50),
    fresh(makeKey()),
    makeKeyPackage(bob.key.publicKey, { notBefore: now - 10, notAfter: now }),
    makeKeyPackage(bob.key.publicKey, { notBefore: now + 20, notAfter: now + 10 }),
    new Uint8Array([...fresh(), ...randomBytes(17_000)]),
  ]
  for (const bytes of bad) {
    await assert.rejects(bob.request('uploadKeyPackage', { keyPackages: [fresh(), bytes] }), refusal('invalid_request'))
  }
  await assert.rejects(bob.request('uploadKeyPackage', { keyPackages: [] }), refusal('invalid_request'))
  assert.equal((await bob.request('uploadKeyPackage', { keyPackages: [fresh()] })).held, 1)
})

test('a KeyPackage that no member would accept is refused at upload, with the reason', async (t) => {
  const { bob } = await scene(t)
  const upload = (bytes: Uint8Array): Promise<unknown> => bob.request('uploadKeyPackage', { keyPackages: [bytes] })
  const made = (extensions: readonly number[]): Uint8Array =>
    makeKeyPackage(bob.key.publicKey, { extensions, notBefore: 0, notAfter: 2 ** 40 })
  const grease = (count: number): number[] => Array.from({ length: count }, (_, at) => 0x1000 + at)
  await assert.rejects(upload(made([0x000a, 0x0a0a])), /do not list the extension type 0xF57A/)
  await assert.rejects(upload(made([])), refusal('invalid_request'))
  await assert.rejects(upload(made([0xf57a])), /do not list the extension type 0xF57C/)
  await assert.rejects(upload(made([0xf57a, 0xf57c, ...grease(31)])), /has 33 entries; at most 32 are allowed/)
  await assert.rejects(upload(made([0xf57a, 0xf57c, ...grease(2000)])), /bytes; at most 4096 are allowed/)
  const key = makeSealKey()
  for (const sealKeys of [[], [key.subarray(1)], [Buffer.concat([key, key])], [key.with(0, 2)], [key, key]]) {
    const bytes = makeKeyPackage(bob.key.publicKey, { sealKeys, notBefore: 0, notAfter: 2 ** 40 })
    await assert.rejects(upload(bytes), /no key to seal its Welcome/)
  }
  await upload(made([0xf57c, ...grease(30), 0xf57a]))
})

test('the relay keeps the 64 newest per agent, without duplicates', async (t) => {
  const { bob, fresh } = await scene(t)
  const many = Array.from({ length: 64 }, () => fresh())
  assert.equal((await bob.request('uploadKeyPackage', { keyPackages: many.slice(0, 40) })).held, 40)
  assert.equal((await bob.request('uploadKeyPackage', { keyPackages: many.slice(0, 40) })).held, 40)
  assert.equal((await bob.request('uploadKeyPackage', { keyPackages: many.slice(40) })).held, 64)
  assert.equal((await bob.request('uploadKeyPackage', { keyPackages: [fresh()] })).held, 64)
  const tooMany = Array.from({ length: 65 }, () => new Uint8Array(1))
  await assert.rejects(bob.request('uploadKeyPackage', { keyPackages: tooMany }), refusal('invalid_request'))
})

test('a KeyPackage that has expired is not handed out, and opening a session reports how many are left', async (t) => {
  const { world, owner, bob, channelId, fresh } = await scene(t)
  const now = Math.floor(world.now() / 1000)
  const short = makeKeyPackage(bob.key.publicKey, { notBefore: now - 60, notAfter: now + 100 })
  const long = fresh()
  await bob.request('uploadKeyPackage', { keyPackages: [short, long] })
  await world.advance(100_000)
  const jwt = world.api.token('bob')
  const again = await Agent.connect(world.transport.wire('cbor'), { key: bob.key, jwt })
  assert.equal(again.opened?.keyPackages, 1)
  const { keyPackage } = await owner.request('addMember', { channelId, agentId: bob.id })
  assert.deepEqual(Buffer.from(keyPackage), Buffer.from(long))
})

test('below 8, the agent is asked to upload more', async (t) => {
  const { owner, bob, channelId, fresh } = await scene(t)
  await bob.request('uploadKeyPackage', { keyPackages: Array.from({ length: 9 }, () => fresh()) })
  await owner.request('addMember', { channelId, agentId: bob.id })
  await quiet()
  assert.deepEqual(bob.pushes, [])
  await owner.request('addMember', { channelId, agentId: bob.id })
  assert.equal((await bob.next('keyPackagesLow')).held, 7)
})

test('claims are limited for each agent, and for each account and target', async (t) => {
  const set = await scene(t, { rates: { claimsPerMinute: 6, claimsPerTargetPerMinute: 4 } })
  const { world, owner, bob, channelId, fresh } = set
  const [same, other] = (await members(set, ['acme', 'other'])) as [Agent, Agent]
  await bob.request('uploadKeyPackage', { keyPackages: Array.from({ length: 30 }, () => fresh()) })
  const claim = (agent: Agent, agentId: Uint8Array = bob.id): Promise<unknown> =>
    agent.request('addMember', { channelId, agentId })
  for (let count = 0; count < 4; count++) await claim(owner)
  await assert.rejects(claim(owner), (error) => {
    return error instanceof Refused && error.code === 'rate_limited' && error.refusal.retryAfterMs === 15_000
  })
  await assert.rejects(claim(same), /rate_limited: This account has had its share of the KeyPackages of agent/)
  // The share of one account is no other's.
  for (let count = 0; count < 4; count++) await claim(other)
  await assert.rejects(claim(other), refusal('rate_limited'))
  await assert.rejects(claim(owner, randomBytes(32)), refusal('key_package_unavailable'))
  for (let count = 0; count < 9; count++) await assert.rejects(claim(owner), refusal('rate_limited'))
  await world.advance(60_000)
  await claim(owner)
})

test('of the last 7 KeyPackages of an agent, another account gets one at most until it uploads more', async (t) => {
  const set = await scene(t)
  const { owner, bob, channelId, fresh } = set
  const agents = await members(set, ['a', 'b', 'c', 'd', 'e', 'bob', undefined])
  const guest = agents.pop() ?? assert.fail()
  const sibling = agents.pop() ?? assert.fail()
  await bob.request('uploadKeyPackage', { keyPackages: Array.from({ length: 16 }, () => fresh()) })
  const claim = (agent: Agent): Promise<unknown> => agent.request('addMember', { channelId, agentId: bob.id })
  const waits = async (agent: Agent): Promise<number | undefined> => {
    const refused = await claim(agent).catch((error: unknown) => error)
    assert.ok(refused instanceof Refused && refused.code === 'rate_limited', String(refused))
    return refused.refusal.retryAfterMs
  }
  for (let count = 0; count < 9; count++) await claim(owner)
  assert.equal(await waits(owner), 1000, 'the agent is connected, and was asked for more')
  for (const agent of agents) {
    await claim(agent)
    await waits(agent)
  }
  await assert.rejects(claim(guest), refusal('api_key_required'))
  await claim(sibling)
  bob.close()
  await quiet()
  assert.equal(await waits(owner), 10_000)
  await claim(sibling)
  await assert.rejects(claim(owner), refusal('key_package_unavailable'))
})

test('an upload gives every account access to all KeyPackages of the agent again', async (t) => {
  const { owner, bob, channelId, fresh } = await scene(t)
  const claim = (): Promise<unknown> => owner.request('addMember', { channelId, agentId: bob.id })
  for (let round = 0; round < 3; round++) {
    await bob.request('uploadKeyPackage', { keyPackages: [fresh(), fresh()] })
    await claim()
    await assert.rejects(claim(), refusal('rate_limited'))
  }
})

test('the last 100,000 claims are remembered, and the oldest is forgotten first', () => {
  const shares = new ClaimShares(60)
  const account = (id: string): Account => ({ id, mode: 'live' })
  const supply = { account: account('target'), held: 7, newest: 'n', isConnected: false }
  const claim = (agent: string): number => shares.take(account('mal'), agent, supply, 0)
  for (let n = 0; n < 100_000; n++) assert.equal(claim(String(n)), 0)
  assert.equal(claim('0'), 10_000)
  assert.equal(claim('one more'), 0)
  assert.equal(claim('1'), 10_000)
  assert.equal(claim('0'), 0)
})

test('the pool is limited in agents and bytes: the account that holds the most loses its oldest upload', () => {
  const pool = new KeyPackagePool(3, 1000)
  const upload = (account: string, agent: string, size: number): string[] => {
    const bytes = randomBytes(size)
    return pool.add({ id: account, mode: 'live' }, agent, [{ bytes, hash: bytes.toString('hex'), notAfter: 10 }])
  }
  const held = (...agents: string[]): number[] => agents.map((agent) => pool.held(agent, 0))
  for (const agent of ['a', 'b', 'c']) assert.deepEqual(upload('one', agent, 100), [])
  upload('one', 'a', 100)
  assert.deepEqual(upload('one', 'd', 100), ['b'])
  assert.deepEqual(held('a', 'b', 'c', 'd'), [2, 0, 1, 1])
  // Another account takes most of the room: it loses its own, not those of others.
  assert.deepEqual(upload('two', 'e', 200), ['c'])
  assert.deepEqual(upload('two', 'e', 900), ['e'])
  assert.deepEqual(held('a', 'd', 'e'), [2, 1, 0])
  assert.equal(pool.take('a', 10), undefined, 'expired')
})
