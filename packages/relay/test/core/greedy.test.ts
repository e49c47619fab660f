/** What one greedy agent, account or address takes, it takes from itself: others are served as before. */
import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import test from 'node:test'
import { cutEnvelope, joinProofBytes, makeCell } from '@static/protocol'
import { CloseReason } from '@static/protocol/relay'
import { makeVerifier } from '../../src/api/token-verifier.ts'
import { Agent, makeKey, sha256 } from '@static/testkit/agent'
import { refusal } from '@static/testkit/agent'
import { FakeApi } from '@static/testkit/relay/api'
import { openMemoryRelay, quiet } from '../support/memory-relay.ts'

test('an unfinished envelope makes way for others, and times out', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { joiningBytes: 40_000 } } })
  const wire = world.transport.wire('cbor')
  const greedy = await Agent.connect(wire)
  greedy.write(cutEnvelope(randomBytes(30_000)).subarray(0, 20 * 1024))
  await world.advance(100)
  const honest = await Agent.connect(wire, { jwt: world.api.token('acme') })
  const cells = cutEnvelope(randomBytes(30_000))
  honest.write(cells.subarray(0, 20 * 1024))
  assert.equal((await greedy.next('sessionClosing')).error?.code, 'unavailable')
  assert.equal(world.driver.counts.sessions, 1)
  for (let second = 0; second < 31; second += 3) {
    await world.advance(3000)
    honest.write(makeCell('ping'))
  }
  assert.equal((await honest.next('sessionClosing')).reason, CloseReason.MALFORMED)
})

test('the sender that holds the most makes way, not a sender on a slow clock', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { joiningBytes: 40_000 } } })
  const wire = world.transport.wire('cbor')
  const [slow, greedy, last] = [await Agent.connect(wire), await Agent.connect(wire), await Agent.connect(wire)]
  const cells = cutEnvelope(randomBytes(30_000))
  slow.write(cells.subarray(0, 2 * 1024))
  await world.advance(250)
  greedy.write(cells.subarray(0, 20 * 1024))
  last.write(cells.subarray(0, 1024))
  assert.equal((await greedy.next('sessionClosing')).error?.code, 'unavailable')
  assert.equal(world.driver.counts.sessions, 2)
})

test('many short unfinished envelopes of one address make way, not a longer one of another address', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { joiningBytes: 40_000 } } })
  const cells = cutEnvelope(randomBytes(30_000))
  const honest = await Agent.connect(world.transport.wire('cbor', '192.0.2.2'))
  honest.write(cells.subarray(0, 10 * 1024))
  for (let count = 0; count < 20; count++) {
    const greedy = await Agent.connect(world.transport.wire('cbor', '192.0.2.1'))
    greedy.write(cells.subarray(0, 4 * 1024))
  }
  await quiet()
  assert.ok(world.driver.counts.sessions < 1 + 20)
  assert.equal(honest.pushes.length, 0, 'it is not told that its session closes')
})

test('pending polls hold no memory, and an agent can have at most four', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { totalRequestBytes: 20_000 } } })
  const wire = world.transport.wire('cbor')
  const owner = await Agent.connect(wire, { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  const poll = (): Promise<unknown> => owner.request('pollJoinRequests', { channelId, waitMs: 60_000 })
  const open = [poll(), poll(), poll(), poll()]
  await quiet()
  await assert.rejects(poll(), refusal('rate_limited'))
  await Agent.connect(wire, { jwt: world.api.token('other') })
  await world.advance(60_001)
  await Promise.all(open)
})

// Less than a token lives: that is a time of the wall clock.
for (const jump of [300_000, -300_000]) {
  test(`waits and rates do not depend on a wall clock that jumps by ${jump / 1000} s`, async (t) => {
    const settings = { rates: { resumedPerMinute: 100, uploadsPerMinute: 1 } }
    const world = await openMemoryRelay(t, { settings })
    const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
    const channelId = await owner.createChannel('acme/x/y')
    const channelIds = Array.from({ length: 90 }, () => randomBytes(16))
    const resume = (): Promise<unknown> => owner.request('resume', { channelIds })
    const upload = (): Promise<unknown> => owner.request('uploadKeyPackage', { keyPackages: [randomBytes(10)] })
    await resume()
    await assert.rejects(upload(), refusal('invalid_request'))
    let isOver = false
    const poll = owner.request('pollJoinRequests', { channelId, waitMs: 60_000 }).then(() => (isOver = true))
    world.skew(jump)
    await world.advance(1000)
    await assert.rejects(resume(), refusal('rate_limited'))
    await assert.rejects(upload(), refusal('rate_limited'))
    assert.equal(isOver, false)
    await world.advance(60_001)
    await poll
    await resume()
    await assert.rejects(upload(), refusal('invalid_request'))
  })
}

test('the cost of a resume grows with the channels it names', async (t) => {
  const world = await openMemoryRelay(t, { settings: { rates: { resumedPerMinute: 100 } } })
  const guest = await Agent.connect(world.transport.wire('cbor', '198.51.100.1'))
  const channelIds = Array.from({ length: 60 }, () => randomBytes(16))
  await guest.request('resume', { channelIds })
  await assert.rejects(guest.request('resume', { channelIds }), refusal('rate_limited'))
  const other = await Agent.connect(world.transport.wire('cbor', '198.51.100.1'))
  await assert.rejects(other.request('resume', { channelIds }), refusal('rate_limited'))
  const elsewhere = await Agent.connect(world.transport.wire('cbor', '198.51.100.2'))
  await elsewhere.request('resume', { channelIds })
  await world.advance(60_000)
  await guest.request('resume', { channelIds })
})

test('uploads of KeyPackages and Welcomes are rate-limited, and commits are before their signature is checked', async (t) => {
  const world = await openMemoryRelay(t, {
    settings: { rates: { uploadsPerMinute: 2, commitsBurst: 2, ownCommitsBurst: 1 } },
  })
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const upload = (): Promise<unknown> => owner.request('uploadKeyPackage', { keyPackages: [randomBytes(10)] })
  await assert.rejects(upload(), refusal('invalid_request'))
  await assert.rejects(upload(), refusal('invalid_request'))
  await assert.rejects(upload(), refusal('rate_limited'))
  const channelId = await owner.createChannel('acme/x/y')
  const unsigned = { channelId, slot: 0n, messageId: randomBytes(16), commit: randomBytes(9), declaration: {} }
  for (let at = 0; at < 3; at++) await assert.rejects(owner.request('sendCommit', unsigned), refusal('invalid_request'))
  await assert.rejects(owner.request('sendCommit', unsigned), refusal('rate_limited'))
  const welcome = { channelId, slot: 0n, welcome: { agentId: randomBytes(32), welcome: randomBytes(9) } }
  await assert.rejects(owner.request('sendWelcome', welcome), refusal('rate_limited'))
})

test('marks cannot be guessed: only an agent that reads gets more', async (t) => {
  const world = await openMemoryRelay(t)
  const wire = world.transport.wire('cbor')
  const owner = await Agent.connect(wire, { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  const reader = await Agent.connect(wire)
  await owner.commit(channelId, 0n, { adds: [reader.id] })
  reader.deaf = true
  await reader.request('resume', { channelIds: [channelId] })
  for (let counter = 1n; counter <= 20n; counter++) await owner.send(channelId, 1n, counter, randomBytes(200_000))
  await quiet()
  const before = reader.receivedBytes
  assert.ok(before < 400 * 1024)
  const guess = new Uint8Array(8)
  for (let number = 1; number < 50; number++) {
    new DataView(guess.buffer).setBigUint64(0, BigInt(number))
    reader.write(makeCell('pong', guess))
    if (world.driver.counts.sessions < 2) break
  }
  await reader.ended
  assert.equal((await reader.next('sessionClosing')).reason, CloseReason.MALFORMED)
})

test('many acknowledgements are stored together', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  for (let counter = 1n; counter <= 200n; counter++) await owner.send(channelId, 0n, counter)
  let stored = 0
  const run = world.store.run.bind(world.store)
  world.store.run = (name, request) => {
    if (name === 'ack') stored++
    return run(name, request)
  }
  for (let index = 1n; index <= 200n; index++) owner.ack(channelId, index)
  await world.advance(200)
  assert.equal(stored, 1)
  const { channels } = await owner.request('resume', { channelIds: [channelId] })
  assert.equal(channels[0]?.cursor?.index, 200n)
})

test('join requests beyond the limit of an owner evict its oldest one, and none of another owner', async (t) => {
  const world = await openMemoryRelay(t, {
    settings: { counts: { joinsPerInvite: 2000 }, streams: { openingsBurst: 5000, openingsPerSecond: 1 } },
  })
  const wire = world.transport.wire('cbor')
  const invite = async (account: string) => {
    const owner = await Agent.connect(wire, { jwt: world.api.token(account) })
    const channelId = await owner.createChannel(`${account}/x/y`)
    const admissionKey = randomBytes(32)
    const inviteId = randomBytes(16)
    const expiresAtMs = BigInt(world.now() + 1e9)
    await owner.request('registerInvite', { channelId, inviteId, admissionKey, expiresAtMs, maxUses: 1 })
    const ask = async (): Promise<Uint8Array> => {
      const joiner = await Agent.connect(wire, { key: makeKey() })
      const box = randomBytes(8)
      const claim = { sessionNonce: joiner.challenge?.nonce ?? box, inviteId, agentId: joiner.id, boxHash: sha256(box) }
      const proof = createHmac('sha256', admissionKey).update(joinProofBytes(claim)).digest()
      await joiner.request('requestJoin', { inviteId, box, proof })
      joiner.close()
      return joiner.id
    }
    const poll = async (): Promise<Uint8Array[]> => {
      const { requests } = await owner.request('pollJoinRequests', { channelId })
      return requests.map(({ agentId }) => agentId)
    }
    return { ask, poll }
  }
  const small = await invite('small')
  const first = await small.ask()
  const greedy = await invite('greedy')
  const asked: Uint8Array[] = []
  for (let at = 0; at < 1003; at++) asked.push(await greedy.ask())
  assert.deepEqual(await small.poll(), [first])
  assert.deepEqual((await greedy.poll())[0], asked[3])
})

test('an API that hangs keeps no one waiting once the keys are known', async () => {
  let now = 1_800_000_000_000
  const api = new FakeApi(() => now)
  let hang = false
  const verify = makeVerifier(
    () => (hang ? new Promise<never>(() => {}) : api.keys()),
    () => now,
  )
  await verify(api.token('acme'))
  hang = true
  now += 3_000_000
  assert.equal((await verify(api.token('acme'))).sub, 'acme')
})
