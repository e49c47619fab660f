/** How sessions open, what an answer to a challenge must be, and how sessions end. */
import assert from 'node:assert/strict'
import { randomBytes, sign } from 'node:crypto'
import test from 'node:test'
import { create } from '@bufbuild/protobuf'
import { REVISION, type SessionClaim, sessionBytes } from '@static/protocol'
import { ClientMessageSchema, CloseReason, Purpose, TrafficProfile } from '@static/protocol/relay'
import { Agent, type AgentKey, makeKey, Refused, sha256 } from '@static/testkit/agent'
import { refusal } from '@static/testkit/agent'
import { UnaryAgent } from '../support/unary.ts'
import { openMemoryRelay, quiet, type MemoryRelay } from '../support/memory-relay.ts'

const TRAFFIC = {
  standard: TrafficProfile.STANDARD,
  private: TrafficProfile.PRIVATE,
  strict: TrafficProfile.STRICT,
  off: TrafficProfile.OFF,
}

/** An answer to the agent's challenge, honest in every field, over a claim that `signed` alters. */
function answered(agent: Agent, jwt = '', signed: Partial<SessionClaim> = {}): object {
  const { challenge, key } = agent
  if (!challenge) throw new Error('There is no challenge.')
  const claim: SessionClaim = {
    purpose: 'session',
    revision: REVISION,
    relayName: challenge.relayName,
    relayId: challenge.relayId,
    relayNonce: challenge.nonce,
    agentNonce: new Uint8Array(randomBytes(32)),
    jwtHash: jwt === '' ? undefined : sha256(Buffer.from(jwt)),
    traffic: 'off',
    cellsPerSecond: 0,
  }
  return {
    purpose: Purpose.SESSION,
    revision: claim.revision,
    publicKey: key.publicKey,
    relayNonce: claim.relayNonce,
    agentNonce: claim.agentNonce,
    jwt,
    trafficProfile: TRAFFIC[claim.traffic],
    signature: sign(null, sessionBytes({ ...claim, ...signed }), key.privateKey),
  }
}

/** An agent with a stream and a challenge. */
async function challenged(world: MemoryRelay, key: AgentKey = makeKey()): Promise<Agent> {
  const agent = await Agent.dial(world.transport.wire('cbor'), key)
  agent.challenge = await agent.request('getChallenge', { revision: REVISION })
  return agent
}

async function closing(agent: Agent): Promise<{ reason: CloseReason; code: string | undefined }> {
  await agent.ended
  const { reason, error } = await agent.next('sessionClosing')
  return { reason, code: error?.code }
}

test('an agent with a JWT opens a session and learns its id and lifetime', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  assert.deepEqual(Buffer.from(agent.opened?.agentId ?? []), Buffer.from(agent.id))
  assert.equal(agent.opened?.expiresInMs, 3_600_000)
  assert.equal(agent.opened.sessionToken, '')
  assert.equal(agent.opened.pingIntervalMs, 5000)
  assert.equal(agent.challenge?.relayName, 'relay.test')
  assert.deepEqual(Buffer.from(agent.challenge?.relayId ?? []), Buffer.from(world.store.deployment.relayId))
})

test('an agent without a JWT is a guest: it can resume its channels but not create any', async (t) => {
  const world = await openMemoryRelay(t)
  const guest = await Agent.connect(world.transport.wire('protobuf'))
  assert.equal(guest.opened?.expiresInMs, 0)
  assert.deepEqual((await guest.request('resume', {})).channels, [])
  await assert.rejects(guest.createChannel('acme/x/y'), refusal('api_key_required'))
  await assert.rejects(guest.refresh(world.api.token('acme')), refusal('not_allowed'))
})

test('a relay that accepts no guests requires an API key', async (t) => {
  const world = await openMemoryRelay(t, { guests: false })
  const agent = await Agent.dial(world.transport.wire('cbor'), makeKey())
  await assert.rejects(agent.open(), refusal('api_key_required'))
  await agent.ended
  await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
})

test('every traffic profile can be opened, and strict may state its rate', async (t) => {
  const world = await openMemoryRelay(t)
  for (const traffic of ['standard', 'private', 'strict', 'off'] as const) {
    const agent = await challenged(world)
    await agent.request('openSession', { ...answered(agent, '', { traffic }), trafficProfile: TRAFFIC[traffic] })
  }
  const strict = await challenged(world)
  const said = { trafficProfile: TrafficProfile.STRICT, cellsPerSecond: 40 }
  const claim = { traffic: 'strict', cellsPerSecond: 40 } as const
  await strict.request('openSession', { ...answered(strict, '', claim), ...said })
})

for (const [what, claim] of [
  ['another relay name', { relayName: 'relay.evil' }],
  ['another relay id', { relayId: new Uint8Array(32) }],
  ['another nonce of the relay', { relayNonce: new Uint8Array(32) }],
  ['another nonce of the agent', { agentNonce: new Uint8Array(32) }],
  ['the purpose of a unary session', { purpose: 'unary' }],
  ['the purpose of a refresh', { purpose: 'refresh' }],
  ['another revision', { revision: REVISION + 1 }],
  ['another traffic profile', { traffic: 'standard' }],
  ['another rate', { cellsPerSecond: 9 }],
  ['a JWT that it does not bring', { jwtHash: new Uint8Array(32).fill(1) }],
] as const satisfies [string, Partial<SessionClaim>][]) {
  test(`a signature over ${what} is refused, and the stream ends`, async (t) => {
    const world = await openMemoryRelay(t)
    const agent = await challenged(world)
    await assert.rejects(agent.request('openSession', answered(agent, '', claim)), refusal('auth_failed'))
    await agent.ended
  })
}

for (const [what, changes, code] of [
  ['a wrong signature', { signature: new Uint8Array(64) }, 'auth_failed'],
  ['a short signature', { signature: new Uint8Array(63) }, 'auth_failed'],
  ['no signature', { signature: new Uint8Array() }, 'auth_failed'],
  ['the key of another agent', { publicKey: makeKey().publicKey }, 'auth_failed'],
  ['a key that is no point', { publicKey: new Uint8Array(32).fill(255) }, 'auth_failed'],
  ['a key of 31 bytes', { publicKey: new Uint8Array(31) }, 'invalid_request'],
  ['a key of 33 bytes', { publicKey: new Uint8Array(33) }, 'invalid_request'],
  ['a short nonce of the agent', { agentNonce: new Uint8Array(31) }, 'invalid_request'],
  ['another nonce than the challenge', { relayNonce: new Uint8Array(32) }, 'auth_failed'],
  ['an empty nonce', { relayNonce: new Uint8Array() }, 'auth_failed'],
  ['no purpose', { purpose: Purpose.UNSPECIFIED }, 'invalid_request'],
  ['the purpose refresh', { purpose: Purpose.REFRESH }, 'invalid_request'],
  ['the purpose unary on a stream', { purpose: Purpose.UNARY }, 'invalid_request'],
  ['a revision that nobody offered', { revision: REVISION + 1 }, 'invalid_request'],
  ['no traffic profile', { trafficProfile: TrafficProfile.UNSPECIFIED }, 'invalid_request'],
  ['an unknown traffic profile', { trafficProfile: 99 }, 'invalid_request'],
  ['another profile than it signed', { trafficProfile: TrafficProfile.PRIVATE }, 'auth_failed'],
  ['a rate without the strict profile', { cellsPerSecond: 5 }, 'invalid_request'],
  ['a JWT that it did not sign', { jwt: 'e30.e30.e30' }, 'auth_failed'],
] as const satisfies [string, object, string][]) {
  test(`an answer with ${what} is ${code}, and the stream ends`, async (t) => {
    const world = await openMemoryRelay(t)
    const agent = await challenged(world)
    const answer: object = { ...answered(agent), ...changes }
    await assert.rejects(agent.request('openSession', answer), refusal(code))
    await agent.ended
    assert.equal(world.driver.counts.streams, 0)
  })
}

test('a challenge is valid for 30 s', async (t) => {
  const world = await openMemoryRelay(t, { settings: { session: { openMs: 120_000 } } })
  const early = await challenged(world)
  await world.advance(30_000)
  await early.request('openSession', answered(early))
  const late = await challenged(world)
  await world.advance(30_001)
  await assert.rejects(late.request('openSession', answered(late)), refusal('auth_failed'))
})

for (const jump of [3_600_000, -3_600_000]) {
  test(`a wall clock that jumps by ${jump / 1000} s does not change the timeout of an opening`, async (t) => {
    const world = await openMemoryRelay(t)
    const early = await challenged(world)
    const late = await challenged(world)
    world.skew(jump)
    await world.advance(1000)
    await early.request('openSession', answered(early))
    // Who does not answer at all is sent away when its time is over.
    await world.advance(10_001)
    await late.ended
  })

  test(`a challenge is valid for 30 s, even if the wall clock jumps by ${jump / 1000} s`, async (t) => {
    const world = await openMemoryRelay(t, { settings: { session: { openMs: 120_000 } } })
    const late = await challenged(world)
    world.skew(jump)
    await world.advance(30_001)
    await assert.rejects(late.request('openSession', answered(late)), refusal('auth_failed'))
  })
}

test('a challenge is valid only on its own stream, and a newer one replaces it', async (t) => {
  const world = await openMemoryRelay(t)
  const key = makeKey()
  const first = await challenged(world, key)
  const second = await challenged(world, key)
  await assert.rejects(second.request('openSession', answered(first)), refusal('auth_failed'))
  const old = answered(first)
  await first.request('getChallenge', { revision: REVISION })
  await assert.rejects(first.request('openSession', old), refusal('auth_failed'))
})

test('an answer is valid only once: not again here, and not for a token', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await challenged(world)
  const answer = answered(agent)
  await agent.request('openSession', answer)
  await assert.rejects(agent.request('openSession', answer), refusal('invalid_request'))
  const again = await Agent.dial(world.transport.wire('cbor'), agent.key)
  await assert.rejects(again.request('openSession', answer), refusal('auth_failed'))
  const unary = new UnaryAgent(world, agent.key)
  if (!agent.challenge) throw new Error('There is no challenge.')
  await assert.rejects(unary.answer(agent.challenge), refusal('auth_failed'))
})

test('a second opening on the same stream is refused, and the session continues', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await challenged(world)
  await agent.request('openSession', answered(agent))
  agent.challenge = await agent.request('getChallenge', { revision: REVISION })
  await assert.rejects(agent.request('openSession', answered(agent)), refusal('invalid_request'))
  await agent.request('resume', {})
})

test('JWTs of another agent, expired ones, those of another issuer and garbage are refused', async (t) => {
  const world = await openMemoryRelay(t)
  const stranger = (await openMemoryRelay(t)).api
  const key = makeKey()
  const own = Buffer.from(key.id).toString('hex')
  const bad = {
    'cnf of another agent': world.api.token('acme', { cnf: Buffer.from(makeKey().id).toString('hex') }),
    'run out': world.api.token('acme', { lifetime: -6 }),
    'signed by another API': stranger.token('acme'),
    'no JWT at all': 'garbage',
    'longer than any': 'a'.repeat(3000),
  }
  for (const [what, jwt] of Object.entries(bad)) {
    const agent = await Agent.dial(world.transport.wire('cbor'), key)
    await assert.rejects(agent.open(jwt), refusal('auth_failed'), what)
    await agent.ended
  }
  await Agent.connect(world.transport.wire('cbor'), { key, jwt: world.api.token('acme', { cnf: own }) })
  await Agent.connect(world.transport.wire('cbor'), { key, jwt: world.api.token('acme', { mode: 'test' }) })
})

test('without the API a JWT cannot be checked, and the agent is asked to retry', async (t) => {
  const world = await openMemoryRelay(t)
  const jwt = world.api.token('acme')
  world.api.reachable = false
  const agent = await Agent.dial(world.transport.wire('cbor'), makeKey())
  await assert.rejects(agent.open(jwt), (error) => {
    return error instanceof Refused && error.code === 'unavailable' && error.refusal.retryAfterMs === 1000
  })
  world.api.reachable = true
  await Agent.connect(world.transport.wire('cbor'), { jwt })
})

test('a session that is not opened within 5 s is closed', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await challenged(world)
  await world.advance(5000)
  assert.equal(world.driver.counts.streams, 1)
  await world.advance(1)
  assert.deepEqual(await closing(agent), { reason: CloseReason.EXPIRED, code: 'auth_failed' })
})

test('no request is served before a session is open', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await Agent.dial(world.transport.wire('cbor'), makeKey())
  const requests: Record<string, object> = {
    createChannel: { name: 'acme/x/y', channelId: randomBytes(16), welcome: randomBytes(9) },
    sendMessage: { channelId: randomBytes(16), messageId: randomBytes(16), ciphertext: randomBytes(9) },
    resume: {},
    ack: {},
    pollJoinRequests: { channelId: randomBytes(16) },
    refreshSession: {},
    leave: {},
  }
  for (const [name, value] of Object.entries(requests)) {
    await assert.rejects(agent.request(name as 'resume', value), refusal('auth_failed'), name)
  }
  agent.ack(randomBytes(16), 1n)
  assert.deepEqual(await closing(agent), { reason: CloseReason.MALFORMED, code: 'auth_failed' })
})

test('a session token does not open a session on a stream', async (t) => {
  const world = await openMemoryRelay(t)
  const unary = new UnaryAgent(world)
  await unary.open(world.api.token('acme'))
  const agent = await Agent.dial(world.transport.wire('cbor'), unary.key)
  const body = { case: 'resume', value: {} } as const
  const answer = await agent.raw(create(ClientMessageSchema, { sessionToken: unary.token, body }))
  assert.equal(answer.case === 'error' && answer.value.code, 'auth_failed')
})

test('a session is closed with auth_failed 30 s after its JWT has expired', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const guest = await Agent.connect(world.transport.wire('cbor'))
  await world.advance(3_600_000)
  await agent.request('resume', {})
  await world.advance(30_000)
  await agent.request('resume', {})
  await world.advance(1)
  assert.deepEqual(await closing(agent), { reason: CloseReason.EXPIRED, code: 'auth_failed' })
  await guest.request('resume', {})
})

test('a refresh with a new JWT keeps a session alive', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  await world.advance(3_000_000)
  assert.equal((await agent.refresh(world.api.token('acme'))).expiresInMs, 3_600_000)
  await world.advance(3_600_000)
  await agent.request('resume', {})
  await world.advance(30_001)
  await agent.ended
})

test('a refresh must keep account and mode, and a refused one changes nothing', async (t) => {
  const world = await openMemoryRelay(t)
  const jwt = world.api.token('acme', { mode: 'test' })
  const agent = await Agent.connect(world.transport.wire('cbor'), { jwt })
  await assert.rejects(agent.refresh(world.api.token('other', { mode: 'test' })), refusal('auth_failed'))
  await assert.rejects(agent.refresh(world.api.token('acme', { mode: 'live' })), refusal('auth_failed'))
  const cnf = Buffer.from(makeKey().id).toString('hex')
  await assert.rejects(agent.refresh(world.api.token('acme', { mode: 'test', cnf })), refusal('auth_failed'))
  await assert.rejects(agent.refresh(''), refusal('auth_failed'))
  const challenge = await agent.request('getChallenge', { revision: REVISION })
  const answer = agent.refreshing(challenge, world.api.token('acme', { mode: 'test' }))
  const altered = { ...answer, jwt: world.api.token('acme', { mode: 'test', lifetime: 60 }) }
  await assert.rejects(agent.request('refreshSession', altered), refusal('auth_failed'))
  await assert.rejects(agent.request('refreshSession', answer), refusal('auth_failed'), 'the challenge is used up')
  await world.advance(3_630_001)
  await agent.ended
})

test('a newer session replaces the older one, which is notified', async (t) => {
  const world = await openMemoryRelay(t)
  const key = makeKey()
  const older = await Agent.connect(world.transport.wire('cbor'), { key })
  const newer = await Agent.connect(world.transport.wire('protobuf'), { key })
  assert.deepEqual(await closing(older), { reason: CloseReason.REPLACED, code: 'closed' })
  await newer.request('resume', {})
  assert.deepEqual({ ...world.driver.counts }, { streams: 1, sessions: 1, requests: 0, pending: 0 })
})

test('a failed opening does not affect the existing session', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await Agent.connect(world.transport.wire('cbor'))
  const thief = await challenged(world)
  const answer = { ...answered(thief), publicKey: agent.key.publicKey }
  await assert.rejects(thief.request('openSession', answer), refusal('auth_failed'))
  await agent.request('resume', {})
})

// ---- Proxies ----

const HELLO = { revision: REVISION, agentAddress: new Uint8Array([198, 51, 100, 7]) }

test('a proxy sends ProxyHello before the opening of its agent, which passes through unchanged', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await Agent.dial(world.transport.wire('cbor', '192.0.2.9', true), makeKey())
  await agent.request('proxyHello', HELLO)
  await agent.open(world.api.token('acme'))
  await agent.request('resume', {})
  await assert.rejects(agent.request('proxyHello', HELLO), refusal('not_allowed'))
})

test('only a known proxy can send ProxyHello, and only once', async (t) => {
  const world = await openMemoryRelay(t)
  const stranger = await Agent.dial(world.transport.wire('cbor'), makeKey())
  await assert.rejects(stranger.request('proxyHello', HELLO), refusal('not_allowed'))
  const proxy = await Agent.dial(world.transport.wire('cbor', '192.0.2.9', true), makeKey())
  await assert.rejects(
    proxy.request('proxyHello', { ...HELLO, revision: 1 }),
    refusal('version_mismatch', /The proxy uses/u),
  )
  const odd = { ...HELLO, agentAddress: new Uint8Array(5) }
  await assert.rejects(proxy.request('proxyHello', odd), refusal('invalid_request'))
  await proxy.request('proxyHello', HELLO)
  await assert.rejects(proxy.request('proxyHello', HELLO), refusal('not_allowed'))
})

test('a proxy that is older than the agent is refused, because it would drop fields', async (t) => {
  const world = await openMemoryRelay(t)
  const agent = await Agent.dial(world.transport.wire('cbor', '192.0.2.9', true), makeKey())
  await agent.request('proxyHello', HELLO)
  await assert.rejects(agent.request('getChallenge', { revision: REVISION + 1 }), refusal('version_mismatch'))
  await agent.request('getChallenge', { revision: REVISION })
})

test('limits per address count the sessions of a proxy by the addresses of their agents', async (t) => {
  const world = await openMemoryRelay(t, { settings: { streams: { perAddress: 2 } } })
  const through = async (last: number): Promise<Agent> => {
    const agent = await Agent.dial(world.transport.wire('cbor', '192.0.2.9', true), makeKey())
    await agent.request('proxyHello', { ...HELLO, agentAddress: new Uint8Array([198, 51, 100, last]) })
    await agent.open()
    return agent
  }
  const first = await through(1)
  await through(1)
  await through(2)
  await through(2)
  const direct = await Agent.dial(world.transport.wire('cbor', '198.51.100.1'), makeKey())
  assert.deepEqual(await closing(direct), { reason: CloseReason.SHUTDOWN, code: 'rate_limited' })
  const third = await Agent.dial(world.transport.wire('cbor', '192.0.2.9', true), makeKey())
  third.request('proxyHello', { ...HELLO, agentAddress: new Uint8Array([198, 51, 100, 1]) }).catch(() => {})
  assert.deepEqual(await closing(third), { reason: CloseReason.SHUTDOWN, code: 'rate_limited' })
  first.close()
  await through(1)
})

test('a proxy forwards unary calls, including long ones and pending ones', async (t) => {
  const world = await openMemoryRelay(t)
  const unary = new UnaryAgent(world)
  await unary.open(world.api.token('acme'))
  const proxy = await Agent.dial(world.transport.wire('cbor', '192.0.2.9', true), makeKey())
  await proxy.request('proxyHello', HELLO)
  const channelId = randomBytes(16)
  const welcome = randomBytes(10_000)
  const founding = { case: 'createChannel', value: { name: 'acme/x/y', channelId, welcome } } as const
  const created = await proxy.raw(create(ClientMessageSchema, { sessionToken: unary.token, body: founding }))
  assert.equal(created.case, 'createChannel')
  const polling = { case: 'pollJoinRequests', value: { channelId, waitMs: 20_000 } } as const
  const poll = proxy.raw(create(ClientMessageSchema, { sessionToken: unary.token, body: polling }))
  await world.advance(10_000)
  await world.advance(10_000)
  assert.equal((await poll).case, 'pollJoinRequests')
})

test('a challenge issued through a proxy is valid once, for its stream or for a token', async (t) => {
  const world = await openMemoryRelay(t)
  const key = makeKey()
  const proxied = await Agent.dial(world.transport.wire('cbor', '192.0.2.9', true), key)
  await proxied.request('proxyHello', HELLO)
  const challenge = (proxied.challenge = await proxied.request('getChallenge', { revision: REVISION }))
  await new UnaryAgent(world, key).answer(challenge)
  await proxied.request('getChallenge', { revision: REVISION }).then((fresh) => (proxied.challenge = fresh))
  const fresh = proxied.challenge
  await proxied.request('openSession', answered(proxied))
  await assert.rejects(new UnaryAgent(world, key).answer(fresh), refusal('auth_failed'))
  await quiet()
})
