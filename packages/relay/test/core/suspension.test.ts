/** The operator suspends an account: its agents stop within seconds, whatever tokens and leases they hold. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { BlockedAccounts } from '../../src/core/accounts/blocked-accounts.ts'
import { Effects } from '../../src/core/effects.ts'
import type { Effect } from '../../src/core/io.ts'
import { CloseReason } from '@static/protocol/relay'
import { Agent, makeKey, refusal } from '@static/testkit/agent'
import { type MemoryRelay, openMemoryRelay, quiet } from '../support/memory-relay.ts'
import { UnaryAgent } from '../support/unary.ts'

/** The relay asks every 4 s. */
const CHECK_MS = 4000

const connect = (world: MemoryRelay, account: string): Promise<Agent> =>
  Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token(account) })

async function suspend(world: MemoryRelay, account: string): Promise<void> {
  world.api.suspended.add(account)
  await world.advance(CHECK_MS)
}

test('an idle session of a suspended account ends with the reason; others stay', async (t) => {
  const world = await openMemoryRelay(t)
  const [bad, good] = [await connect(world, 'bad'), await connect(world, 'good')]
  await world.advance(CHECK_MS)
  await suspend(world, 'bad')
  const { reason, error } = await bad.next('sessionClosing')
  assert.deepEqual([reason, error?.code], [CloseReason.NOT_ALLOWED, 'account_suspended'])
  await bad.ended
  await good.createChannel('acme/x/y')
})

test('the agents of an account that the API has lost hear that it is unknown, not that it is suspended', async (t) => {
  const world = await openMemoryRelay(t)
  const jwt = world.api.token('lost')
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt })
  const channelId = await owner.createChannel('acme/x/y')
  const guest = await Agent.connect(world.transport.wire('protobuf'))
  await owner.commit(channelId, 0n, { adds: [guest.id] })
  await guest.request('resume', {})
  world.api.unknown.add('lost')
  // The relay asks for quota before it has heard of it.
  await assert.rejects(guest.send(channelId, 1n, 1n), refusal('account_unknown'))
  await world.advance(CHECK_MS)
  const { reason, error } = await owner.next('sessionClosing')
  assert.deepEqual([reason, error?.code], [CloseReason.NOT_ALLOWED, 'account_unknown'])
  assert.match(error?.message ?? '', /no such account/)
  await assert.rejects(Agent.connect(world.transport.wire('cbor'), { jwt }), refusal('account_unknown'))
  await assert.rejects(new UnaryAgent(world).open(jwt), refusal('account_unknown'))
  await assert.rejects(guest.send(channelId, 1n, 1n), refusal('account_unknown'))
})

test('its token opens no session until the account is resumed', async (t) => {
  const world = await openMemoryRelay(t)
  const jwt = world.api.token('bad')
  await Agent.connect(world.transport.wire('cbor'), { jwt })
  await suspend(world, 'bad')
  await assert.rejects(Agent.connect(world.transport.wire('cbor'), { jwt }), refusal('account_suspended'))
  await assert.rejects(new UnaryAgent(world).open(jwt), refusal('account_suspended'))
  world.api.suspended.delete('bad')
  await world.advance(CHECK_MS)
  const back = await Agent.connect(world.transport.wire('cbor'), { jwt })
  await back.createChannel('acme/x/y')
})

test('its agents do not come back as guests until the account is resumed; other guests stay', async (t) => {
  const world = await openMemoryRelay(t)
  const wire = world.transport.wire('cbor')
  const [key, idle] = [makeKey(), makeKey()]
  await Agent.connect(wire, { key, jwt: world.api.token('bad') })
  ;(await Agent.connect(wire, { key: idle, jwt: world.api.token('bad') })).close()
  // Before the relay has heard of it.
  world.api.suspended.add('bad')
  const [early, other] = [await Agent.connect(wire, { key: idle }), await Agent.connect(wire)]
  await world.advance(CHECK_MS)
  const { error } = await early.next('sessionClosing')
  assert.equal(error?.code, 'account_suspended')
  await assert.rejects(Agent.connect(wire, { key }), refusal('account_suspended'))
  await assert.rejects(new UnaryAgent(world, key).open(), refusal('account_suspended'))
  // An hour later, when the account has no valid token left.
  await world.advance(4_000_000)
  const late = await Agent.connect(wire, { key })
  await world.advance(CHECK_MS)
  assert.equal((await late.next('sessionClosing')).error?.code, 'account_suspended')
  await other.request('resume', {})
  world.api.suspended.delete('bad')
  await world.advance(CHECK_MS)
  await (await Agent.connect(wire, { key })).request('resume', {})
})

test('calls with a session token are refused too', async (t) => {
  const world = await openMemoryRelay(t)
  const caller = new UnaryAgent(world)
  await caller.open(world.api.token('bad'))
  await caller.request('resume', {})
  await suspend(world, 'bad')
  await assert.rejects(caller.request('resume', {}), refusal('account_suspended'))
})

test('its leases are returned, and guests cannot send at its expense', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await connect(world, 'bad')
  const channelId = await owner.createChannel('acme/x/y')
  const guest = await Agent.connect(world.transport.wire('protobuf'))
  await owner.commit(channelId, 0n, { adds: [guest.id] })
  await guest.request('resume', {})
  await guest.send(channelId, 1n, 1n)
  assert.equal(world.api.lent, 1)
  // The owner is elsewhere: only its quota is in use here.
  owner.close()
  await quiet()
  await suspend(world, 'bad')
  assert.equal(world.api.lent, 0)
  assert.equal(world.api.spent.get('bad/live'), 1)
  await assert.rejects(guest.send(channelId, 1n, 2n), refusal('account_suspended'))
})

test('a lease that arrives after its account was blocked is returned, and pending messages are refused', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await connect(world, 'bad')
  const channelId = await owner.createChannel('acme/x/y')
  const guest = await Agent.connect(world.transport.wire('protobuf'))
  await owner.commit(channelId, 0n, { adds: [guest.id] })
  await guest.request('resume', {})
  const gate = Promise.withResolvers<void>()
  world.api.gate = gate.promise
  const refused = assert.rejects(guest.send(channelId, 1n, 1n), refusal('account_suspended'))
  await quiet()
  const lent = world.api.suspended
  await suspend(world, 'bad')
  await refused
  // The API had decided on the lease before the suspension.
  lent.delete('bad')
  gate.resolve()
  await quiet()
  assert.equal(world.api.lent, 1)
  lent.add('bad')
  await world.advance(CHECK_MS)
  assert.equal(world.api.lent, 0)
})

test('an unreachable API ends no session', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await connect(world, 'bad')
  world.api.reachable = false
  await suspend(world, 'bad')
  await suspend(world, 'bad')
  await owner.createChannel('acme/x/y')
  assert.equal(world.api.checks.length, 2)
})

test('many accounts are checked in several requests, and without accounts there is none', () => {
  const effects = new Effects()
  const blocked = new BlockedAccounts(effects)
  const accounts = Array.from({ length: 300 }, (_, n) => `account-${n}`)
  const told: string[] = []
  const check = (inUse: readonly string[]): Effect[] => {
    effects.monotonic += CHECK_MS
    blocked.tick(
      () => inUse,
      (account) => told.push(account),
    )
    return effects.take()
  }
  assert.deepEqual(check([]), [])
  const asked = check(accounts).filter((effect) => effect.type === 'blocked')
  assert.deepEqual(
    asked.map((effect) => effect.accounts.length),
    [256, 44],
  )
  assert.deepEqual(check(accounts), [], 'one round at a time')
  for (const { id } of asked)
    effects.done(id, { ok: true, value: { suspended: ['account-7', 'account-299'], unknown: [] } })
  assert.deepEqual(told, ['account-7', 'account-299'])
  assert.deepEqual([blocked.reason('account-299'), blocked.reason('account-8')], ['account_suspended', undefined])
  effects.monotonic += 3_700_001
  assert.deepEqual(check([]), [], 'no token lives that long')
  assert.equal(blocked.reason('account-7'), undefined)
})
