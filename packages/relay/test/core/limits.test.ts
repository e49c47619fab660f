/** Every count, rate and buffer has a bound, and who is past it is told. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { addressKey, CELL_BYTES, cutEnvelope, ENVELOPE_LIMITS, makeCell, MAX_CIPHERTEXT_BYTES } from '@static/protocol'
import { CloseReason } from '@static/protocol/relay'
import { addressText } from '../../src/core/sessions/address.ts'
import { Rates } from '../../src/core/requests/rates.ts'
import { Agent, makeKey, Refused } from '@static/testkit/agent'
import { randomNumbers, SEED } from '@static/testkit/random'
import { refusal } from '@static/testkit/agent'
import { UnaryAgent } from '../support/unary.ts'
import { openMemoryRelay, quiet, type MemoryRelay } from '../support/memory-relay.ts'

async function closing(agent: Agent): Promise<[CloseReason, string | undefined]> {
  await agent.ended
  const { reason, error } = await agent.next('sessionClosing')
  return [reason, error?.code]
}

function dial(world: MemoryRelay, address?: string): Promise<Agent> {
  return Agent.dial(world.transport.wire('cbor', address), makeKey())
}

const TURNED_AWAY = [CloseReason.SHUTDOWN, 'rate_limited']

test('sessions per address: one too many is refused, other addresses are not affected', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { perAddress: 3 } } })
  const wire = world.transport.wire('cbor', '198.51.100.1')
  const first = await Agent.connect(wire)
  await Agent.connect(wire)
  await Agent.connect(wire)
  assert.deepEqual(await closing(await dial(world, '198.51.100.1')), TURNED_AWAY)
  await Agent.connect(world.transport.wire('cbor', '198.51.100.2'))
  first.close()
  await Agent.connect(wire)
})

test('sessions of one address that are not open yet have their own limit', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { unauthenticatedPerAddress: 2 } } })
  const waiting = await dial(world, '198.51.100.1')
  await dial(world, '198.51.100.1')
  assert.deepEqual(await closing(await dial(world, '198.51.100.1')), TURNED_AWAY)
  await waiting.open()
  await Agent.connect(world.transport.wire('cbor', '198.51.100.1'))
})

test('an IPv6 user counts as its /64, however the address is written', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { perAddress: 2 } } })
  await Agent.connect(world.transport.wire('cbor', '2001:db8:0:1::1'))
  await Agent.connect(world.transport.wire('cbor', '2001:DB8:0:1:aaaa:bbbb:cccc:dddd'))
  assert.deepEqual(await closing(await dial(world, '2001:db8::1:0:0:0:9')), TURNED_AWAY)
  await Agent.connect(world.transport.wire('cbor', '2001:db8:0:2::1'))
})

test('addresses are counted as the limits require', () => {
  const same = [
    ['2001:db8::', '2001:0db8:0000:0000:0001::'],
    ['::1', '0:0:0:0:0:0:0:1'],
    ['::', '::2'],
    ['fe80::1%eth0', 'fe80::2%eth1'],
    ['1:2:3:4::', '1:2:3:4:5:6:7:8'],
    ['203.0.113.7', '::ffff:203.0.113.7'],
    ['203.0.113.7', '::FFFF:cb00:7107'],
    ['203.0.113.7', '0:0:0:0:0:ffff:cb00:7107'],
  ]
  for (const [one = '', other = ''] of same) assert.equal(addressKey(one), addressKey(other), `${one} ${other}`)
  const apart = [
    ['2001:db8:0:1::1', '2001:db8:0:2::1'],
    ['203.0.113.7', '203.0.113.8'],
    ['::ffff:203.0.113.7', '::ffff:203.0.113.8'],
    ['1::', '1:0:0:1::'],
  ]
  for (const [one = '', other = ''] of apart) assert.notEqual(addressKey(one), addressKey(other), `${one} ${other}`)
  assert.equal(addressText(new Uint8Array([203, 0, 113, 7])), '203.0.113.7')
  const mapped = new Uint8Array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 203, 0, 113, 7])
  assert.equal(addressKey(addressText(mapped) ?? ''), '203.0.113.7')
  assert.equal(addressText(new Uint8Array(5)), undefined)
  assert.equal(addressText(new Uint8Array()), undefined)
})

test('a /48 gets the streams and openings of 16 addresses, and never all streams of the relay', async (t) => {
  const address = (net: number): string => `2001:db8:1:${net.toString(16)}::1`
  const world = await openMemoryRelay(t, { settings: { streams: { total: 20, perAddress: 2 } } })
  for (let net = 0; net < 15; net++) await Agent.connect(world.transport.wire('cbor', address(net)))
  assert.deepEqual(await closing(await dial(world, address(99))), TURNED_AWAY)
  await Agent.connect(world.transport.wire('cbor', '2001:db8:2::1'))
  const rapid = await openMemoryRelay(t, { settings: { streams: { openingsPerSecond: 1, openingsBurst: 1 } } })
  for (let net = 0; net < 16; net++) (await dial(rapid, address(net))).close()
  assert.deepEqual(await closing(await dial(rapid, address(99))), TURNED_AWAY)
  ;(await dial(rapid, '2001:db8:2::1')).close()
})

test('session openings are rate-limited per address', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { openingsPerSecond: 2, openingsBurst: 3 } } })
  for (let count = 0; count < 3; count++) (await dial(world, '198.51.100.1')).close()
  const refused = await dial(world, '198.51.100.1')
  await refused.ended
  const { error } = await refused.next('sessionClosing')
  assert.deepEqual([error?.code, error?.retryAfterMs], ['rate_limited', 1000])
  await Agent.connect(world.transport.wire('cbor', '198.51.100.2'))
  await world.advance(500)
  await Agent.connect(world.transport.wire('cbor', '198.51.100.1'))
})

test('unary calls are rate-limited per address', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { callsPerSecond: 1, callsBurst: 3 } } })
  const agent = new UnaryAgent(world)
  await agent.open()
  await agent.request('resume', {})
  await assert.rejects(agent.request('resume', {}), refusal('rate_limited'))
  const elsewhere = new UnaryAgent(world, makeKey(), '198.51.100.2')
  await elsewhere.open()
})

test('rates allow a burst, then a number per second, in bounded memory', () => {
  const rates = new Rates(2, 3, 2)
  assert.deepEqual(
    [1, 2, 3, 4].map(() => rates.take('a', 0)),
    [0, 0, 0, 500],
  )
  assert.equal(rates.take('a', 400), 100)
  assert.equal(rates.take('a', 500), 0)
  assert.equal(rates.take('a', 500), 500)
  assert.equal(rates.take('b', 500), 0)
  assert.equal(rates.take('a', 0), 500, 'a clock that goes back gives nothing')
  rates.take('c', 500)
  assert.equal(rates.take('b', 500), 0, 'b was quiet longest and is forgotten')
})

test('too many pending requests end the session', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { requests: 4 } } })
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  for (let count = 0; count < 4; count++) {
    owner.request('pollJoinRequests', { channelId, waitMs: 60_000 }).catch(() => {})
  }
  await quiet()
  owner.request('resume', {}).catch(() => {})
  assert.deepEqual(await closing(owner), [CloseReason.TOO_MANY_REQUESTS, 'rate_limited'])
  assert.deepEqual({ ...world.driver.counts }, { streams: 0, sessions: 0, requests: 0, pending: 0 })
})

test('too many pending bytes end a session, and beyond the total of all sessions requests are refused', async (t) => {
  const streams = { requestBytes: 500_000, totalRequestBytes: 700_000 }
  const world = await openMemoryRelay(t, { settings: { streams } })
  const { promise, resolve } = Promise.withResolvers<void>()
  world.api.gate = promise
  const made = async (account: string): Promise<[Agent, Uint8Array]> => {
    const agent = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token(account) })
    return [agent, await agent.createChannel('acme/x/y')]
  }
  const [alice, one] = await made('alice')
  const [bob, two] = await made('bob')
  const held = [1n, 2n].map((counter) => alice.send(one, 0n, counter, randomBytes(200_000)))
  const fits = bob.send(two, 0n, 1n, randomBytes(200_000))
  await quiet()
  await assert.rejects(bob.send(two, 0n, 2n, randomBytes(200_000)), refusal('unavailable'))
  alice.send(one, 0n, 3n, randomBytes(200_000)).catch(() => {})
  for (const request of held) request.catch(() => {})
  assert.deepEqual(await closing(alice), [CloseReason.TOO_MANY_REQUESTS, 'rate_limited'])
  await assert.rejects(bob.send(two, 0n, 2n, randomBytes(200_000)), refusal('unavailable'), "alice's are held still")
  resolve()
  await fits
  await bob.send(two, 0n, 2n, randomBytes(200_000))
})

test('an agent that sends requests but does not read the responses is disconnected with an error, at 1.25 MiB pending', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const founding = { name: 'acme/x/y', channelId: randomBytes(16), welcome: randomBytes(18_000) }
  await owner.request('createChannel', founding)
  owner.deaf = true
  const asked = Array.from({ length: 120 }, () => owner.request('createChannel', founding).catch(() => {}))
  assert.deepEqual(await closing(owner), [CloseReason.SLOW, 'unavailable'])
  await Promise.all(asked)
})

test('envelopes are limited to 4 KiB before the session opens, 64 KiB after it, and 4 MiB for a member', async (t) => {
  const world = await openMemoryRelay(t)
  const small = await dial(world)
  small.write(cutEnvelope(randomBytes(ENVELOPE_LIMITS.unauthenticated + 1)))
  assert.deepEqual(await closing(small), [CloseReason.MALFORMED, 'invalid_request'])

  const channelId = randomBytes(16)
  const message = (size: number): object => ({ channelId, messageId: randomBytes(16), ciphertext: randomBytes(size) })
  const nobody = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  await assert.rejects(nobody.request('sendMessage', message(60_000)), refusal('not_found'))
  nobody.request('sendMessage', message(66_000)).catch(() => {})
  assert.deepEqual(await closing(nobody), [CloseReason.MALFORMED, 'invalid_request'])

  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const own = await owner.createChannel('acme/x/y')
  await owner.send(own, 0n, 1n, randomBytes(MAX_CIPHERTEXT_BYTES))
  await assert.rejects(owner.send(own, 0n, 2n, randomBytes(4_000_000)), refusal('too_large'))
  owner.send(own, 0n, 2n, randomBytes(ENVELOPE_LIMITS.member + 1)).catch(() => {})
  assert.deepEqual(await closing(owner), [CloseReason.MALFORMED, 'invalid_request'])
})

test('an agent that already was a member, or becomes one by a Welcome, may send long envelopes', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  const guest = await Agent.connect(world.transport.wire('cbor'))
  await owner.commit(channelId, 0n, { adds: [guest.id] })
  await guest.send(channelId, 1n, 1n, randomBytes(200_000))
  const again = await Agent.connect(world.transport.wire('protobuf'), { key: guest.key })
  await again.send(channelId, 1n, 2n, randomBytes(200_000))
})

test('unfinished envelopes share a budget across all sessions', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { joiningBytes: 300_000 } } })
  const members: Agent[] = []
  for (const account of ['a', 'b', 'c']) {
    const agent = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token(account) })
    await agent.createChannel('acme/x/y')
    members.push(agent)
  }
  const part = cutEnvelope(randomBytes(500_000)).subarray(0, 100 * CELL_BYTES)
  const [first, second, third] = members as [Agent, Agent, Agent]
  first.write(part)
  await world.advance(100)
  second.write(part)
  await world.advance(100)
  third.write(part)
  // Who has let an envelope wait longest gives way.
  assert.deepEqual(await closing(first), [CloseReason.MALFORMED, 'unavailable'])
  const again = await Agent.connect(world.transport.wire('cbor'), { key: first.key, jwt: world.api.token('a') })
  assert.equal(world.driver.counts.sessions, 3)
  again.write(part)
  assert.deepEqual(await closing(second), [CloseReason.MALFORMED, 'unavailable'])
})

test('cells that violate the protocol end the session, before and after it opens', async (t) => {
  const world = await openMemoryRelay(t)
  const bad = {
    'an unknown type': cell(9, 0),
    'a length beyond the cell': cell(5, 1022),
    'padding that is not zero': cell(5, 3).with(500, 1),
    'an empty envelope': cell(5, 0),
    'a middle without a beginning': cell(7, 1021),
    'an end without a beginning': cell(8, 10),
    'cover with a payload': cell(0, 1),
    'a pong that nobody asked for': makeCell('pong', randomBytes(8)),
    'a short pong': makeCell('pong', randomBytes(3)),
    'an envelope of noise': cutEnvelope(new Uint8Array(50).fill(255)),
    'an acknowledgement of noise': makeCell('ack', new Uint8Array(50).fill(255)),
  }
  for (const [what, bytes] of Object.entries(bad)) {
    const fresh = await dial(world)
    fresh.write(bytes)
    assert.equal((await closing(fresh))[0], CloseReason.MALFORMED, what)
    const open = await Agent.connect(world.transport.wire('cbor'))
    open.write(bytes)
    assert.deepEqual(await closing(open), [CloseReason.MALFORMED, 'invalid_request'], what)
  }
  assert.equal(world.driver.counts.streams, 0)
})

function cell(type: number, length: number): Uint8Array {
  const bytes = new Uint8Array(CELL_BYTES)
  bytes.set([type, length >>> 8, length & 0xff])
  return bytes
}

test('random bytes, in chunks of any size, affect no other session', async (t) => {
  t.diagnostic(`seed ${SEED}`)
  const random = randomNumbers(SEED)
  const world = await openMemoryRelay(t)
  const witness = await Agent.connect(world.transport.wire('cbor'))
  for (let run = 0; run < 100; run++) {
    const noisy = run % 2 ? await Agent.connect(world.transport.wire('protobuf')) : await dial(world)
    for (let chunk = 0; chunk < 5; chunk++) {
      const bytes = new Uint8Array(randomBytes(Math.floor(random() * 3000)))
      if (random() < 0.7 && bytes.length > 3) bytes.set([Math.floor(random() * 9), random() < 0.5 ? 0 : 3, 40])
      noisy.write(bytes)
    }
    await quiet()
    noisy.close()
  }
  await witness.request('resume', {})
  assert.equal(world.driver.counts.streams, 1)
})

test('an acknowledgement before the session opens ends the stream with the reason', async (t) => {
  const world = await openMemoryRelay(t)
  const early = await dial(world)
  early.write(makeCell('ack', new Uint8Array([0xa0])))
  await early.ended
  const { reason, error } = await early.next('sessionClosing')
  assert.deepEqual([reason, error?.code], [CloseReason.MALFORMED, 'auth_failed'])
  assert.equal(error?.message, 'An acknowledgement came before the session was open. Open the session first.')
})

test('a request without an id or without a body ends the session', async (t) => {
  const world = await openMemoryRelay(t)
  for (const bytes of [new Uint8Array([0xa1, 0x07, 0xa0]), new Uint8Array([0xa1, 0x01, 0x05])]) {
    const agent = await Agent.connect(world.transport.wire('cbor'))
    agent.write(cutEnvelope(bytes))
    assert.deepEqual(await closing(agent), [CloseReason.MALFORMED, 'invalid_request'])
  }
})

test('commits are limited to a number per second with a burst, and losers learn how long to wait', async (t) => {
  const rates = { commitsPerSecond: 1, commitsBurst: 6, ownCommitsBurst: 4 }
  const world = await openMemoryRelay(t, { settings: { rates } })
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  for (let slot = 0n; slot < 9n; slot++) await owner.commit(channelId, slot)
  await assert.rejects(owner.commit(channelId, 3n), (error) => {
    if (!(error instanceof Refused) || error.code !== 'epoch_mismatch') return false
    const { head, retryAfterMs = 0 } = error.refusal
    return head === 9n && retryAfterMs >= 1 && retryAfterMs <= 151
  })
  await assert.rejects(owner.commit(channelId, 9n), (error) => {
    return error instanceof Refused && error.code === 'rate_limited' && error.refusal.retryAfterMs === 1000
  })
  await world.advance(1000)
  await owner.commit(channelId, 9n)
})

test('names, ids and Welcomes of channels are checked, and channels per account and per resume are limited', async (t) => {
  const world = await openMemoryRelay(t, { settings: { counts: { channelsPerAccount: 2, resumedChannels: 2 } } })
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const found = (name: string, changes: object = {}): Promise<unknown> =>
    owner.request('createChannel', { name, channelId: randomBytes(16), welcome: randomBytes(9), ...changes })
  for (const name of ['', 'a/b', 'a/b/c/d', 'A/b/c', '-a/b/c', 'a-/b/c', `${'a'.repeat(64)}/b/c`, 'a//c', 'a/b/ü']) {
    await assert.rejects(found(name), refusal('channel_error'), name)
  }
  await assert.rejects(found('a/b/c', { channelId: randomBytes(15) }), refusal('invalid_request'))
  await assert.rejects(found('a/b/c', { welcome: new Uint8Array() }), refusal('invalid_request'))
  await assert.rejects(found('a/b/c', { welcome: randomBytes(20_481) }), refusal('invalid_request'))
  const channelId = randomBytes(16)
  const welcome = randomBytes(20_480)
  await found('a/b/c', { channelId, welcome })
  const again = await owner.request('createChannel', { name: 'a/b/c', channelId, welcome: randomBytes(5) })
  assert.deepEqual(Buffer.from(again.welcome), welcome, 'the same answer as the first time')
  await assert.rejects(found('a/b/c'), refusal('channel_exists'))
  await found('a/b/d')
  await assert.rejects(found('a/b/e'), refusal('not_allowed'))
  const three = [randomBytes(16), randomBytes(16), randomBytes(16)]
  await assert.rejects(owner.request('resume', { channelIds: three }), refusal('invalid_request'))
  await assert.rejects(owner.request('resume', { channelIds: [randomBytes(15)] }), refusal('invalid_request'))
})

test('fields of commits, Leave notices and Welcomes are checked', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const other = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  await owner.commit(channelId, 0n, { adds: [other.id] })
  const messageId = randomBytes(16)
  const commit = randomBytes(100)
  const place = { channelId, slot: 1n, messageId, commit }
  const declaration = owner.declaration(place, {})
  const good = { ...place, declaration }
  for (const changes of [
    { messageId: randomBytes(15) },
    { commit: new Uint8Array() },
    { commit: randomBytes(100) },
    { slot: 2n },
    { channelId: randomBytes(3) },
    { declaration: undefined },
    { declaration: other.declaration(place, {}) },
    { declaration: { ...declaration, adds: [randomBytes(32)] } },
    { declaration: { ...declaration, adds: [randomBytes(31)] } },
    { declaration: { ...declaration, signature: new Uint8Array() } },
    { welcomes: [{ agentId: randomBytes(32), welcome: new Uint8Array() }] },
    { welcomes: [{ agentId: randomBytes(32), welcome: randomBytes(9), inviteId: randomBytes(3) }] },
    { welcomes: [{ agentId: randomBytes(32), welcome: randomBytes(9), tag: randomBytes(33) }] },
    { welcomes: [{ agentId: randomBytes(32), welcome: randomBytes(9) }] },
  ]) {
    await assert.rejects(owner.request('sendCommit', { ...good, ...changes }), refusal('invalid_request'))
    await world.advance(1000)
  }
  assert.equal((await owner.request('sendCommit', good)).head, 2n)
  const notice = other.notice(channelId, 2n)
  for (const wrong of [
    undefined,
    { ...notice, publicKey: owner.key.publicKey },
    { ...notice, signature: randomBytes(64) },
    { ...notice, signature: randomBytes(63) },
    { ...notice, publicKey: randomBytes(31) },
    { ...notice, slot: 1n },
    owner.notice(channelId, 2n),
  ]) {
    await assert.rejects(other.request('leave', { channelId, notice: wrong }), refusal('invalid_request'))
  }
  await other.request('leave', { channelId, notice })
  await assert.rejects(owner.request('sendWelcome', { channelId, slot: 1n }), refusal('invalid_request'))
  await assert.rejects(
    owner.request('sendMessage', { channelId, messageId: randomBytes(15) }),
    refusal('invalid_request'),
  )
  const huge = { channelId, messageId: randomBytes(16), counter: 2n ** 60n }
  await assert.rejects(owner.request('sendMessage', huge), refusal('invalid_request'))
})
