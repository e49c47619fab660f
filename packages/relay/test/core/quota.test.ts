/** Who pays, how much, and that what is told to the API is exactly what was accepted. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import test from 'node:test'
import { type Lease, StaticError } from '@static/protocol'
import { BlockedAccounts } from '../../src/core/accounts/blocked-accounts.ts'
import { Effects } from '../../src/core/effects.ts'
import type { Effect } from '../../src/core/io.ts'
import { Quota, type Unit } from '../../src/core/accounts/quota.ts'
import { Agent } from '@static/testkit/agent'
import { randomNumbers, SEED } from '@static/testkit/random'
import { refusal } from '@static/testkit/agent'
import { UnaryAgent } from '../support/unary.ts'
import { openMemoryRelay, quiet, type MemoryRelay } from '../support/memory-relay.ts'

const ACME = 'acme/live'
const START = Date.UTC(2027, 0, 15, 12)

async function owned(world: MemoryRelay): Promise<{ owner: Agent; channelId: Uint8Array }> {
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  return { owner, channelId: await owner.createChannel('acme/x/y') }
}

/** A guest in the channel. */
async function joined(world: MemoryRelay, owner: Agent, channelId: Uint8Array, slot: bigint): Promise<Agent> {
  const guest = await Agent.connect(world.transport.wire('protobuf'))
  await owner.commit(channelId, slot, { adds: [guest.id] })
  await guest.request('resume', {})
  return guest
}

/** Everything that the API was told after the relay has stopped. */
async function spentIn({ driver, api }: MemoryRelay, account = ACME): Promise<number> {
  await driver.drain()
  assert.equal(api.lent, 0, 'every lease is settled')
  return api.spent.get(account) ?? 0
}

test('every accepted message costs one unit; commits, acknowledgements and the rest cost none', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, channelId } = await owned(world)
  for (let counter = 1n; counter <= 25n; counter++) await owner.send(channelId, 0n, counter)
  await owner.commit(channelId, 0n)
  owner.ack(channelId, 3n)
  assert.equal(world.api.asked, 1)
  assert.equal(await spentIn(world), 25)
  assert.equal(world.api.left.get(ACME), 1_000_000 - 25)
})

test('the API hears which key has sent how much, by sessions and calls; guests have none', async (t) => {
  const world = await openMemoryRelay(t)
  const [first, second] = ['01a1dd29-fb99-77d8-bc4c-7c01980aa2e4', '01a1dd29-fb99-77d8-bc4c-7c01980aa2e5']
  const jwt = (key: string): string => world.api.token('acme', { claims: { key } })
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: jwt(first) })
  const channelId = await owner.createChannel('acme/x/y')
  const caller = new UnaryAgent(world)
  await caller.open(jwt(second))
  await owner.commit(channelId, 0n, { adds: [createHash('sha256').update(caller.key.publicKey).digest()] })
  const guest = await joined(world, owner, channelId, 1n)
  for (let counter = 1n; counter <= 5n; counter++) await owner.send(channelId, 2n, counter)
  // The relay reports while the lease is in use, and again at the end.
  await world.advance(31_000)
  for (let counter = 6n; counter <= 7n; counter++) await owner.send(channelId, 2n, counter)
  const fields = { channelId, slot: 2n, counter: 1n, messageId: randomBytes(16), ciphertext: randomBytes(9) }
  await caller.request('sendMessage', fields)
  await guest.send(channelId, 2n, 1n)
  assert.equal(await spentIn(world), 9)
  assert.deepEqual(Object.fromEntries(world.api.spentByKey), { [first]: 7, [second]: 1 })
})

test('a refused or repeated message costs nothing', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, channelId } = await owned(world)
  const messageId = randomBytes(16)
  assert.equal((await owner.send(channelId, 0n, 1n, randomBytes(9), messageId)).index, 1n)
  for (let again = 0; again < 5; again++) {
    assert.equal((await owner.send(channelId, 0n, 1n, randomBytes(9), messageId)).index, 1n)
  }
  await assert.rejects(owner.send(channelId, 0n, 9n), refusal('out_of_order'))
  await assert.rejects(owner.send(channelId, 5n, 2n), refusal('epoch_mismatch'))
  await assert.rejects(owner.send(channelId, 0n, 2n, randomBytes(300_000)), refusal('too_large'))
  await assert.rejects(owner.send(channelId, 0n, 2n, new Uint8Array()), refusal('invalid_request'))
  await assert.rejects(owner.send(randomBytes(16), 0n, 1n), refusal('not_found'))
  assert.equal(await spentIn(world), 1)
})

test('beyond its allowance the owner pays for commits by their bytes, or is refused; guests never cost it', async (t) => {
  const settings = { retention: { freeCommitBytes: 8000 }, rates: { commitsBurst: 100 } }
  const world = await openMemoryRelay(t, { settings })
  world.api.left.set(ACME, 7)
  const { owner, channelId } = await owned(world)
  const guest = await joined(world, owner, channelId, 0n)
  await guest.commit(channelId, 1n, {}, { size: 7000 })
  await assert.rejects(guest.commit(channelId, 2n, {}, { size: 7000 }), refusal('rate_limited'))
  await owner.commit(channelId, 2n, {}, { size: 6000 })
  // 8,000 bytes are two units, and what is free of them is gone.
  await owner.commit(channelId, 3n, {}, { size: 7880 })
  await owner.commit(channelId, 4n, {}, { size: 7880 })
  await owner.commit(channelId, 5n, {}, { size: 7880 })
  await assert.rejects(owner.commit(channelId, 6n, {}, { size: 7880 }), refusal('quota_exceeded'))
  await owner.commit(channelId, 6n, {}, { size: 100 })
  assert.equal(await spentIn(world), 7)
})

test('a message is refused with quota_exceeded at the limit, and not one earlier', async (t) => {
  const world = await openMemoryRelay(t)
  world.api.left.set(ACME, 7)
  const { owner, channelId } = await owned(world)
  for (let counter = 1n; counter <= 7n; counter++) await owner.send(channelId, 0n, counter)
  await assert.rejects(owner.send(channelId, 0n, 8n), refusal('quota_exceeded'))
  world.api.left.set(ACME, 1)
  await assert.rejects(owner.send(channelId, 0n, 8n), refusal('quota_exceeded'), 'a no is an answer for 5 s')
  await world.advance(5001)
  await owner.send(channelId, 0n, 8n)
  assert.equal(await spentIn(world), 8)
})

test('quota leased to other relays may be returned: unavailable, not quota_exceeded', async (t) => {
  const world = await openMemoryRelay(t)
  world.api.left.set(ACME, 0)
  world.api.outstanding = 500
  const { owner, channelId } = await owned(world)
  await assert.rejects(owner.send(channelId, 0n, 1n), refusal('unavailable'))
})

test('without the API a lease is used up, and then messages are refused as unavailable', async (t) => {
  const world = await openMemoryRelay(t, { settings: { leaseUnits: 3 } })
  const { owner, channelId } = await owned(world)
  await owner.send(channelId, 0n, 1n)
  await quiet()
  world.api.reachable = false
  for (let counter = 2n; counter <= 3n; counter++) await owner.send(channelId, 0n, counter)
  await quiet()
  let sent = 3n
  const more = async (): Promise<void> => {
    for (;;) {
      await owner.send(channelId, 0n, sent + 1n)
      sent++
    }
  }
  await assert.rejects(more(), refusal('unavailable'))
  await assert.rejects(more(), refusal('unavailable'))
  world.api.reachable = true
  await world.advance(1001)
  await owner.send(channelId, 0n, sent + 1n)
  await world.advance(1001)
  assert.equal(await spentIn(world), Number(sent) + 1)
})

test('an agent that may not send gets that error, not one about quota', async (t) => {
  const world = await openMemoryRelay(t)
  world.api.left.set('poor/live', 0)
  const { owner, channelId } = await owned(world)
  const poor = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('poor') })
  await assert.rejects(poor.send(channelId, 0n, 1n), refusal('not_found'))
  await owner.commit(channelId, 0n, { adds: [poor.id] })
  await assert.rejects(poor.send(channelId, 1n, 2n), refusal('out_of_order'))
  await assert.rejects(poor.send(channelId, 0n, 1n), refusal('epoch_mismatch'))
  await assert.rejects(poor.send(channelId, 1n, 1n, randomBytes(300_000)), refusal('too_large'))
  await assert.rejects(poor.send(channelId, 1n, 1n), refusal('quota_exceeded'))
})

test('the owner pays for messages of guests, up to the daily guest limit', async (t) => {
  const world = await openMemoryRelay(t, { settings: { guestLimit: 3 } })
  const { owner, channelId } = await owned(world)
  const guest = await joined(world, owner, channelId, 0n)
  for (let counter = 1n; counter <= 3n; counter++) await guest.send(channelId, 1n, counter)
  await assert.rejects(guest.send(channelId, 1n, 4n), refusal('quota_exceeded'))
  await owner.send(channelId, 1n, 1n)
  await world.advance(86_400_000)
  const later = await Agent.connect(world.transport.wire('cbor'), { key: guest.key })
  await later.send(channelId, 1n, 4n)
  assert.equal(await spentIn(world), 5)
})

test('a message of a guest that has not resumed is charged to the owner too', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, channelId } = await owned(world)
  const guest = new UnaryAgent(world)
  await guest.open()
  await owner.commit(channelId, 0n, { adds: [guest.key.id] })
  const message = { channelId, slot: 1n, counter: 1n, messageId: randomBytes(16), ciphertext: randomBytes(9) }
  assert.equal((await guest.request('sendMessage', message)).index, 2n)
  assert.equal(await spentIn(world), 1)
})

test('test mode and live mode have separate quotas', async (t) => {
  const world = await openMemoryRelay(t)
  world.api.left.set(ACME, 0)
  const jwt = world.api.token('acme', { mode: 'test' })
  const tester = await Agent.connect(world.transport.wire('cbor'), { jwt })
  const channelId = await tester.createChannel('acme/x/y')
  await tester.send(channelId, 0n, 1n)
  assert.equal(await spentIn(world, 'acme/test'), 1)
})

test('control messages are free up to 120 an hour and agent, even without quota; then they are charged', async (t) => {
  const world = await openMemoryRelay(t, { settings: { retention: { freeControl: 3 } } })
  world.api.left.set(ACME, 1)
  const { owner, channelId } = await owned(world)
  const control = (counter: bigint, size = 64): Promise<unknown> => {
    const ciphertext = randomBytes(size)
    return owner.request('sendMessage', {
      channelId,
      slot: 0n,
      counter,
      control: true,
      ciphertext,
      messageId: randomBytes(16),
    })
  }
  await owner.send(channelId, 0n, 1n)
  for (let counter = 2n; counter <= 4n; counter++) await control(counter)
  await assert.rejects(control(5n), refusal('quota_exceeded'))
  await assert.rejects(control(5n, 100_000), refusal('too_large'))
  await world.advance(3_600_000)
  const later = await Agent.connect(world.transport.wire('cbor'), { key: owner.key, jwt: world.api.token('acme') })
  const free = {
    channelId,
    slot: 0n,
    counter: 5n,
    control: true,
    ciphertext: randomBytes(9),
    messageId: randomBytes(16),
  }
  await later.request('sendMessage', free)
  assert.equal(await spentIn(world), 1)
})

test('messages pending for a lease keep their order', async (t) => {
  const world = await openMemoryRelay(t, { settings: { leaseUnits: 4 } })
  const { owner, channelId } = await owned(world)
  const { promise, resolve } = Promise.withResolvers<void>()
  world.api.gate = promise
  const sends = Array.from({ length: 50 }, (_, at) => owner.send(channelId, 0n, BigInt(at + 1)))
  await quiet()
  assert.equal(world.driver.counts.requests, 50)
  resolve()
  const answers = await Promise.all(sends)
  assert.deepEqual(
    answers.map(({ index }) => Number(index)),
    Array.from({ length: 50 }, (_, at) => at + 1),
  )
  assert.equal(await spentIn(world), 50)
})

test('a lease in use is renewed before it expires, and an idle one is returned', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, channelId } = await owned(world)
  await owner.send(channelId, 0n, 1n)
  await world.advance(29_000)
  assert.equal(world.api.spent.get(ACME), undefined)
  await world.advance(2000)
  assert.equal(world.api.spent.get(ACME), 1)
  assert.equal(world.api.lent, 1)
  await world.advance(29_000)
  await owner.send(channelId, 0n, 2n)
  assert.equal(world.api.asked, 1, 'the same lease still')
  await world.advance(2000)
  assert.deepEqual([world.api.spent.get(ACME), world.api.lent], [2, 1])
  await world.advance(31_000)
  assert.equal(world.api.lent, 0)
  assert.equal(world.api.left.get(ACME), 1_000_000 - 2)
  await owner.send(channelId, 0n, 3n)
  assert.equal(world.api.asked, 2)
})

test('a stop waits for pending requests and returns every lease', async (t) => {
  const world = await openMemoryRelay(t, { settings: { leaseUnits: 10 } })
  const { owner, channelId } = await owned(world)
  const { promise, resolve } = Promise.withResolvers<void>()
  world.api.gate = promise
  const sends = Array.from({ length: 7 }, (_, at) => owner.send(channelId, 0n, BigInt(at + 1)))
  await quiet()
  const drained = spentIn(world)
  await assert.rejects(owner.send(channelId, 0n, 8n), refusal('unavailable'), 'nothing new is taken')
  resolve()
  await Promise.all(sends)
  assert.equal(await drained, 7)
  await owner.ended
  assert.equal(owner.pushes.at(-1)?.body.case, 'sessionClosing')
})

test('an agent that disconnects while its messages are pending is charged only for accepted ones', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, channelId } = await owned(world)
  const { promise, resolve } = Promise.withResolvers<void>()
  world.api.gate = promise
  for (let counter = 1n; counter <= 5n; counter++) owner.send(channelId, 0n, counter).catch(() => {})
  await quiet()
  owner.close()
  await quiet()
  assert.equal(world.driver.counts.requests, 5, 'what waits is counted until it is done')
  resolve()
  await quiet()
  assert.equal(world.driver.counts.requests, 0)
  assert.equal(await spentIn(world), 5)
})

for (const ahead of [9000, 3_600_000]) {
  test(`a relay whose clock was ${ahead / 1000} s ahead sends as soon as the API can be reached`, async (t) => {
    const world = await openMemoryRelay(t, { settings: { leaseUnits: 4 } })
    const { owner, channelId } = await owned(world)
    world.skew(ahead)
    // A lease that was granted meanwhile is used, however far apart the clocks are.
    await owner.send(channelId, 0n, 1n)
    for (let counter = 2n; counter <= 4n; counter++) await owner.send(channelId, 0n, counter)
    await quiet()
    world.api.reachable = false
    for (let counter = 5n; counter <= 8n; counter++) await owner.send(channelId, 0n, counter)
    await assert.rejects(owner.send(channelId, 0n, 9n), refusal('unavailable'))
    world.skew(0)
    world.api.reachable = true
    await world.advance(1001)
    await owner.send(channelId, 0n, 9n)
    // And what was lent ends when the API says, not later by what the clock was ahead.
    world.skew(-ahead)
    world.api.reachable = false
    await world.advance(55_001)
    await assert.rejects(owner.send(channelId, 0n, 10n), refusal('unavailable'))
    world.skew(0)
    world.api.reachable = true
    await world.advance(1001)
    await owner.send(channelId, 0n, 10n)
    assert.equal(await spentIn(world), 10)
  })
}

// ---- The meter alone ----

test('a lease that has almost expired on arrival is returned, and not requested over and over', () => {
  const effects = new Effects()
  const quota = new Quota(effects, new BlockedAccounts(effects))
  effects.monotonic = 1_000_000
  const results: (Unit | { refused: string })[] = []
  quota.take({ id: 'acme', mode: 'live' }, (result) => results.push(result))
  const [asked] = effects.take()
  if (asked?.type !== 'lease') throw new Error('No lease was asked for.')
  effects.monotonic += 59_000
  effects.done(asked.id, { ok: true, value: lease('l', 10, 60_000) })
  assert.deepEqual(
    results.map((result) => 'refused' in result && result.refused),
    ['unavailable'],
  )
  quota.tick()
  assert.deepEqual(
    effects.take().map(({ type }) => type),
    ['settle'],
  )
})

test('a lease without a stated lifetime is not used, and not requested over and over', () => {
  const effects = new Effects()
  const quota = new Quota(effects, new BlockedAccounts(effects))
  const results: (Unit | { refused: string })[] = []
  quota.take({ id: 'acme', mode: 'live' }, (result) => results.push(result))
  const [asked] = effects.take()
  if (asked?.type !== 'lease') throw new Error('No lease was asked for.')
  effects.done(asked.id, { ok: true, value: { ...lease('l', 10, 60_000), expires_in_ms: undefined } })
  assert.deepEqual(
    results.map((result) => 'refused' in result && result.refused),
    ['unavailable'],
  )
  assert.deepEqual(effects.take(), [])
})

function lease(id: string, granted: number, lifeMs: number): Lease {
  const expires_at = new Date(START + lifeMs).toISOString()
  return { id, granted, outstanding: 0, expires_at, expires_in_ms: lifeMs, period_end: expires_at }
}

test('with any events in any order, the relay reports exactly what was used, and never more than was leased', (t) => {
  t.diagnostic(`seed ${SEED}`)
  for (let run = 0; run < 400; run++) interleave(SEED + run)
})

/** An API with so many units, a meter, and random things that happen to them. */
function interleave(seed: number): void {
  const random = randomNumbers(seed)
  const below = (limit: number): number => Math.floor(random() * limit)
  const effects = new Effects()
  const quota = new Quota(effects, new BlockedAccounts(effects))
  const account = { id: 'acme', mode: 'live' } as const
  const held: Unit[] = []
  const asked: Effect[] = []
  const leases = new Map<string, { granted: number; spent: number; closed: boolean }>()
  let pool = below(200)
  const limit = pool
  let used = 0
  let waiting = 0
  let settled = 0
  let calls = 0
  let answers = 0
  effects.monotonic = 1_000_000

  const finish = (at: number, reachable: boolean): void => {
    const [effect] = asked.splice(at, 1)
    if (effect?.type === 'lease') {
      if (!reachable) return effects.done(effect.id, { ok: false, error: StaticError.of('unavailable') })
      const granted = Math.min(pool, 1 + below(20))
      pool -= granted
      const id = `lease-${leases.size}`
      if (granted > 0) leases.set(id, { granted, spent: 0, closed: false })
      const value = { ...lease(id, granted, 60_000), id: granted > 0 ? id : null }
      effects.done(effect.id, { ok: true, value })
    } else if (effect?.type === 'settle') {
      const known = leases.get(effect.lease)
      assert.ok(known && effect.spent <= known.granted && effect.spent >= known.spent, `seed ${seed}`)
      // Out of reach before, or after, it was noted.
      const noted = reachable || random() < 0.5
      if (noted) known.spent = effect.spent
      if (noted && effect.final && !known.closed) {
        known.closed = true
        pool += known.granted - known.spent
        settled += known.spent
      }
      if (!reachable) return effects.done(effect.id, { ok: false, error: StaticError.of('unavailable') })
      const remaining = effect.final ? 0 : known.granted - known.spent
      effects.done(effect.id, {
        ok: true,
        value: { remaining, expires_in_ms: 60_000 },
      })
    }
  }
  const step = (): void => {
    const kind = below(10)
    if (kind < 4) {
      waiting++
      const turn = ++calls
      quota.take(account, (result) => {
        waiting--
        assert.equal(turn, ++answers, `seed ${seed}: in the order of the calls`)
        if (!('refused' in result)) held.push(result)
      })
    } else if (kind < 6 && held.length > 0) {
      const [unit] = held.splice(below(held.length), 1)
      if (random() < 0.7) {
        used++
        unit?.use()
      } else unit?.release()
    } else if (kind < 9 && asked.length > 0) {
      finish(below(asked.length), random() < 0.8)
    } else {
      effects.monotonic += below(4000)
      quota.tick()
    }
    asked.push(...effects.take())
  }
  for (let count = 0; count < 300; count++) step()

  quota.close()
  asked.push(...effects.take())
  while (asked.length > 0 || held.length > 0) {
    if (held.length > 0) {
      used++
      held.pop()?.use()
    }
    if (asked.length > 0) finish(0, true)
    asked.push(...effects.take())
  }
  effects.monotonic += 2000
  quota.tick()
  asked.push(...effects.take())
  while (asked.length > 0) {
    finish(0, true)
    asked.push(...effects.take())
  }
  assert.equal(waiting, 0, `seed ${seed}: everybody was answered`)
  assert.deepEqual(
    [...leases.values()].filter(({ closed }) => !closed),
    [],
    `seed ${seed}: every lease was settled`,
  )
  assert.equal(settled, used, `seed ${seed}`)
  assert.ok(used <= limit, `seed ${seed}`)
  assert.equal(pool, limit - used, `seed ${seed}`)
}
