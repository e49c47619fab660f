/** Who gets which entry, in which order, and when nothing more comes. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import test from 'node:test'
import { MAX_CIPHERTEXT_BYTES, toHex } from '@static/protocol'
import { CloseReason } from '@static/protocol/relay'
import { Agent, type AgentKey, makeKey } from '@static/testkit/agent'
import { refusal } from '@static/testkit/agent'
import { openMemoryRelay, quiet, startMemoryRelay, type MemoryRelay } from '../support/memory-relay.ts'

const ENTRIES = ['deliverMessage', 'deliverCommit', 'deliverLeave']

async function guest(world: MemoryRelay, key: AgentKey = makeKey()): Promise<Agent> {
  const agent = await Agent.connect(world.transport.wire('protobuf'), { key })
  await agent.request('resume', {})
  return agent
}

/** A channel with its owner and members that are connected and receive. */
async function channelWith(
  world: MemoryRelay,
  members: number,
): Promise<{ owner: Agent; others: Agent[]; channelId: Uint8Array }> {
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  const others: Agent[] = []
  for (let at = 0; at < members; at++) others.push(await guest(world))
  await owner.commit(channelId, 0n, { adds: others.map(({ id }) => id) })
  for (const other of others) await other.request('resume', {})
  await quiet()
  return { owner, others, channelId }
}

/** The indexes of the entries that an agent was pushed, in order. */
function indexes({ pushes }: Agent): number[] {
  return pushes.flatMap(({ body }) =>
    body.case && ENTRIES.includes(body.case) ? [Number((body.value as { index: bigint }).index)] : [],
  )
}

function cases({ pushes }: Agent): (string | undefined)[] {
  return pushes.map(({ body }) => body.case)
}

function upTo(last: number, first = 1): number[] {
  return Array.from({ length: last - first + 1 }, (_, at) => first + at)
}

test('members get every entry in log order, and their own without the body', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 2)
  const [bob, eve] = others as [Agent, Agent]
  const texts = ['a', 'b', 'c'].map((text) => Buffer.from(text))
  await bob.send(channelId, 1n, 1n, texts[0])
  await Promise.all([eve.send(channelId, 1n, 1n, texts[1]), owner.send(channelId, 1n, 1n, texts[2])])
  await owner.commit(channelId, 1n)
  await quiet()
  assert.deepEqual(indexes(owner), upTo(5))
  assert.deepEqual(indexes(bob), upTo(5, 2))
  assert.deepEqual(indexes(eve), upTo(5, 2))
  for (const agent of [owner, ...others]) {
    for (const { body } of agent.pushes) {
      if (body.case !== 'deliverMessage' && body.case !== 'deliverCommit') continue
      const own = Buffer.from(body.value.sender).equals(agent.id)
      const content = body.case === 'deliverMessage' ? body.value.ciphertext : body.value.commit
      assert.equal(content.length === 0, own)
      if (body.case === 'deliverCommit') assert.equal(body.value.declaration === undefined, own)
    }
  }
})

test('a member that was offline gets the entries it has not acknowledged, then live ones', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [bob] = others as [Agent]
  await owner.send(channelId, 1n, 1n)
  await owner.send(channelId, 1n, 2n)
  await quiet()
  bob.ack(channelId, 2n)
  bob.close()
  for (let counter = 3n; counter <= 500n; counter++) await owner.send(channelId, 1n, counter)
  const again = await Agent.connect(world.transport.wire('cbor'), { key: bob.key })
  const { channels } = await again.request('resume', {})
  assert.equal(channels[0]?.cursor?.index, 2n)
  assert.equal(channels[0]?.lastIndex, 501n)
  await owner.send(channelId, 1n, 501n)
  await quiet()
  assert.deepEqual(indexes(again), upTo(502, 3))
})

test('nothing is delivered before a resume, and then only the resumed channels', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const one = await owner.createChannel('acme/x/one')
  const two = await owner.createChannel('acme/x/two')
  const newer = await Agent.connect(world.transport.wire('cbor'), { key: owner.key, jwt: world.api.token('acme') })
  await newer.request('resume', { channelIds: [two] })
  await newer.send(one, 0n, 1n)
  await newer.send(two, 0n, 1n)
  await quiet()
  assert.deepEqual(
    newer.pushes.map(({ body }) => body.case === 'deliverMessage' && toHex(body.value.channelId)),
    [toHex(two)],
  )
  const { channels } = await newer.request('resume', { channelIds: [one, randomBytes(16)] })
  assert.deepEqual(
    channels.map(({ error }) => error?.code),
    [undefined, 'not_found'],
  )
  await quiet()
  assert.deepEqual(indexes(newer), [1, 1])
})

test('a burst in one turn does not disconnect a reader that keeps up', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 2)
  const big = randomBytes(200_000)
  await Promise.all(Array.from({ length: 30 }, (_, at) => owner.send(channelId, 1n, BigInt(at + 1), big)))
  await quiet()
  for (const agent of others) assert.deepEqual(indexes(agent), upTo(31, 2))
})

test('a reader that stops reading delays no one else, and gets everything in order when it reads again', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 2)
  const [deaf, bob] = others as [Agent, Agent]
  deaf.deaf = true
  for (let counter = 1n; counter <= 40n; counter++) {
    await owner.send(channelId, 1n, counter, randomBytes(MAX_CIPHERTEXT_BYTES - 100))
  }
  await quiet()
  assert.deepEqual(indexes(bob), upTo(41, 2))
  assert.ok(deaf.receivedBytes < 400 * 1024, `${deaf.receivedBytes} bytes are more than a window`)
  deaf.hear()
  await deaf.until(() => indexes(deaf).length === 40)
  assert.deepEqual(indexes(deaf), upTo(41, 2))
})

test('small messages stop at the window too', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [deaf] = others as [Agent]
  deaf.deaf = true
  for (let counter = 1n; counter <= 600n; counter++) await owner.send(channelId, 1n, counter)
  await quiet()
  assert.ok(deaf.receivedBytes < 400 * 1024, `${deaf.receivedBytes} bytes`)
  deaf.hear()
  await deaf.until(() => indexes(deaf).length === 600)
  assert.deepEqual(indexes(deaf), upTo(601, 2))
})

test('a reader that stalls for 30 s is disconnected, and resumes from its cursor', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [deaf] = others as [Agent]
  deaf.deaf = true
  for (let counter = 1n; counter <= 10n; counter++) {
    await owner.send(channelId, 1n, counter, randomBytes(MAX_CIPHERTEXT_BYTES - 100))
  }
  await quiet()
  deaf.ack(channelId, 2n)
  for (let second = 0; second < 30; second += 3) {
    await world.advance(3000)
    // Not dead: it speaks, it does not take.
    deaf.ping()
  }
  assert.equal(world.driver.counts.sessions, 2)
  await world.advance(1000)
  await deaf.ended
  assert.equal((await deaf.next('sessionClosing')).reason, CloseReason.SLOW)
  const again = await Agent.connect(world.transport.wire('cbor'), { key: deaf.key })
  await again.request('resume', {})
  await again.until(() => indexes(again).length === 9)
  assert.deepEqual(indexes(again), upTo(11, 3))
})

test('a peer that does not answer a ping is disconnected after 10 s', async (t) => {
  const world = await openMemoryRelay(t)
  const dead = await guest(world)
  const alive = await guest(world)
  dead.deaf = true
  await world.advance(5001)
  assert.equal(world.driver.counts.sessions, 2)
  await world.advance(5001)
  await dead.ended
  await alive.request('resume', {})
})

test('a relay that was suspended for a minute disconnects no one for it, and still notices silent peers', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let time = Date.UTC(2027, 0, 15, 12)
  const world = await startMemoryRelay({ now: () => time })
  t.after(() => world.close())
  const agent = await guest(world)
  /** The timer is due every 200 ms; it fires once, however late it is. */
  const pass = async (ms: number): Promise<void> => {
    time += ms
    t.mock.timers.tick(200)
    await quiet()
  }
  agent.deaf = true
  for (let passed = 0; passed <= 5000; passed += 200) await pass(200)
  // There is a ping that it has not answered.
  await pass(60_000)
  assert.equal(world.driver.counts.sessions, 1)
  agent.hear()
  await agent.request('resume', {})

  agent.deaf = true
  for (let passed = 0; passed <= 10_400; passed += 200) await pass(200)
  await agent.ended
  assert.deepEqual(world.errors, [])
})

test('an acknowledgement beyond the end of the log counts up to the end', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [bob] = others as [Agent]
  await owner.send(channelId, 1n, 1n)
  await quiet()
  bob.ack(channelId, 9n)
  await bob.request('ack', { positions: [{ channelId, index: 1n }] })
  const { channels } = await bob.request('resume', {})
  assert.equal(channels[0]?.cursor?.index, 2n, 'the cursor never moves back')
  await owner.send(channelId, 1n, 2n)
  await quiet()
  assert.deepEqual(indexes(bob), [2, 3], 'what comes later is delivered')
})

test('entries delivered before a second resume, or in an earlier session, can still be acknowledged', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [bob] = others as [Agent]
  for (let counter = 1n; counter <= 5n; counter++) await owner.send(channelId, 1n, counter)
  await quiet()
  const resumed = bob.request('resume', {})
  bob.ack(channelId, 6n)
  await resumed
  bob.close()
  const again = await guest(world, bob.key)
  await owner.send(channelId, 1n, 6n)
  await quiet()
  again.close()
  const third = await Agent.connect(world.transport.wire('cbor'), { key: bob.key })
  third.ack(channelId, 7n)
  assert.equal((await third.request('resume', {})).channels[0]?.cursor?.index, 7n)
})

test('deleted entries are reported as a gap, which states whether a commit was lost', async (t) => {
  const retention = { channelEntries: 30 }
  const world = await openMemoryRelay(t, { settings: { retention } })
  const { owner, others, channelId } = await channelWith(world, 2)
  const [bob, away] = others as [Agent, Agent]
  away.close()
  const send = async (agent: Agent, first: number, last: number, slot: bigint): Promise<void> => {
    for (let counter = first; counter <= last; counter++) {
      await agent.send(channelId, slot, BigInt(counter))
      await quiet()
      for (const reader of [owner, bob]) reader.ack(channelId, BigInt(Math.max(...indexes(reader))))
      await world.advance(200)
    }
  }
  await send(owner, 1, 30, 1n)
  const again = await guest(world, away.key)
  await quiet()
  const gap = await again.next('gap')
  assert.equal(gap.firstIndex, 2n)
  assert.equal(gap.commitLost, false)
  const end = Number(gap.position?.index)
  assert.deepEqual(indexes(again), upTo(31, end + 1))
  again.ack(channelId, 31n)
  again.close()
  await owner.commit(channelId, 1n)
  await quiet()
  for (const reader of [owner, bob]) reader.ack(channelId, 32n)
  await send(owner, 31, 62, 2n)
  const third = await guest(world, away.key)
  await quiet()
  assert.equal((await third.next('gap')).commitLost, true)
})

test('a removed member gets the commit that removes it, can acknowledge it, and gets nothing after it', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 2)
  const [bob, eve] = others as [Agent, Agent]
  await owner.commit(channelId, 1n, { removes: [bob.id] })
  await owner.send(channelId, 2n, 1n)
  await eve.send(channelId, 2n, 1n)
  await quiet()
  assert.deepEqual(indexes(bob), [2])
  assert.deepEqual(indexes(eve), [2, 3, 4])
  await assert.rejects(bob.send(channelId, 2n, 1n), refusal('removed'))
  bob.ack(channelId, 2n)
  const { channels } = await bob.request('resume', { channelIds: [channelId] })
  assert.equal(channels[0]?.error?.code, 'removed')
  bob.ack(channelId, 3n)
  await bob.request('resume', { channelIds: [channelId] })
})

test('a member that was removed while offline gets everything up to the removal, and no more', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [bob] = others as [Agent]
  bob.close()
  await owner.send(channelId, 1n, 1n)
  await owner.commit(channelId, 1n, { removes: [bob.id] })
  await owner.send(channelId, 2n, 2n)
  const again = await Agent.connect(world.transport.wire('cbor'), { key: bob.key })
  const { channels } = await again.request('resume', { channelIds: [channelId] })
  assert.equal(channels[0]?.lastIndex, 3n)
  await owner.send(channelId, 2n, 3n)
  await quiet()
  assert.deepEqual(indexes(again), [2, 3])
  again.ack(channelId, 3n)
  assert.equal((await again.request('resume', { channelIds: [channelId] })).channels[0]?.error?.code, 'removed')
})

test('a member that is behind when it is removed reads up to the removal, and no more', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [slow] = others as [Agent]
  slow.deaf = true
  for (let counter = 1n; counter <= 5n; counter++) await owner.send(channelId, 1n, counter, randomBytes(200_000))
  await owner.commit(channelId, 1n, { removes: [slow.id] })
  await owner.send(channelId, 2n, 6n)
  await quiet()
  assert.ok(indexes(slow).length < 6)
  slow.hear()
  await quiet()
  await quiet()
  assert.deepEqual(indexes(slow), upTo(7, 2))
  slow.ack(channelId, 7n)
  await slow.request('resume', {})
})

test('an agent that leaves gets its own notice last, and the others see it in the log', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 2)
  const [bob, eve] = others as [Agent, Agent]
  await bob.request('leave', { channelId, notice: bob.notice(channelId, 1n) })
  await eve.send(channelId, 1n, 1n)
  await quiet()
  assert.deepEqual(indexes(bob), [2])
  assert.deepEqual(indexes(eve), [2, 3])
  const left = await eve.next('deliverLeave')
  assert.equal(toHex(left.notice?.signature ?? new Uint8Array()), toHex(bob.notice(channelId, 1n).signature))
  await eve.commit(channelId, 1n, { removes: [bob.id], leaveNotices: [bob.notice(channelId, 1n)] })
  await assert.rejects(
    owner.request('leave', { channelId, notice: owner.notice(channelId, 2n) }),
    refusal('not_allowed'),
  )
  await assert.rejects(
    eve.request('leave', { channelId, notice: eve.notice(channelId, 1n) }),
    refusal('epoch_mismatch'),
  )
})

test('members are notified of a deleted channel, connected or resumed, and no session ends', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 2)
  const [bob, idle] = others as [Agent, Agent]
  const fresh = await Agent.connect(world.transport.wire('cbor'), { key: idle.key })
  await owner.send(channelId, 1n, 1n)
  await quiet()
  await owner.request('deleteChannel', { channel: { case: 'channelId', value: channelId } })
  // On its way when the channel went.
  bob.ack(channelId, 2n)
  for (const agent of [owner, bob, fresh]) {
    assert.deepEqual((await agent.next('channelDeleted')).name, 'acme/x/y')
  }
  const { channels } = await bob.request('resume', { channelIds: [channelId] })
  assert.equal(channels[0]?.error?.code, 'not_found')
})

test('a Welcome is pushed to an agent that is online, and delivered on resume to one that is not, until it is acknowledged', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  const online = await guest(world)
  const offline = makeKey()
  await owner.commit(channelId, 0n, { adds: [online.id, offline.id] })
  const welcome = await online.next('deliverWelcome')
  assert.deepEqual([welcome.name, welcome.slot, welcome.position?.index], ['acme/x/y', 0n, 1n])
  assert.equal(toHex(welcome.sender), toHex(owner.id))
  assert.equal(toHex(welcome.owner), toHex(owner.id))
  assert.equal(toHex(welcome.welcome?.agentId ?? new Uint8Array()), toHex(online.id))
  const late = await guest(world, offline)
  await late.next('deliverWelcome')
  late.close()
  const again = await guest(world, offline)
  const second = await again.next('deliverWelcome')
  again.ack(channelId, second.position?.index ?? 0n)
  again.close()
  const third = await guest(world, offline)
  await quiet()
  assert.deepEqual(cases(third), [])
})

test('a Welcome can be acknowledged before the channel is resumed, and deliveries start after it', async (t) => {
  const world = await openMemoryRelay(t)
  const owner = await Agent.connect(world.transport.wire('cbor'), { jwt: world.api.token('acme') })
  const channelId = await owner.createChannel('acme/x/y')
  const bob = await guest(world)
  await owner.send(channelId, 0n, 1n)
  await owner.commit(channelId, 0n, { adds: [bob.id] })
  await bob.next('deliverWelcome')
  bob.ack(channelId, 2n)
  await owner.send(channelId, 1n, 2n)
  await quiet()
  assert.deepEqual(indexes(bob), [])
  await bob.request('resume', { channelIds: [channelId] })
  await quiet()
  assert.deepEqual(indexes(bob), [3])
})

test('any number of pending Welcomes does not disconnect a resuming agent, and entries come after them', async (t) => {
  const world = await openMemoryRelay(t, {
    settings: { rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 } },
  })
  const key = makeKey()
  for (let count = 0; count < 150; count++) {
    const jwt = world.api.token(`account ${count % 3}`)
    const owner = await Agent.connect(world.transport.wire('cbor'), { jwt })
    const channelId = await owner.createChannel(`acme/x/${count}`)
    const messageId = randomBytes(16)
    const commit = randomBytes(100)
    const declaration = owner.declaration({ channelId, slot: 0n, messageId, commit }, { adds: [key.id] })
    const welcomes = [{ agentId: key.id, welcome: randomBytes(20_000) }]
    await owner.request('sendCommit', { channelId, slot: 0n, messageId, commit, declaration, welcomes })
    await owner.send(channelId, 1n, 1n)
  }
  const late = await guest(world, key)
  for (let ticks = 0; ticks < 30; ticks++) await world.advance(200)
  assert.equal(cases(late).filter((name) => name === 'deliverWelcome').length, 150)
  assert.equal(indexes(late).length, 150)
  assert.ok(cases(late).lastIndexOf('deliverWelcome') < cases(late).indexOf('deliverMessage'))
})

test('a Welcome that was not sent with its commit can follow, from the sender of the commit only', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [bob] = others as [Agent]
  const eve = await guest(world)
  await owner.commit(channelId, 1n, { adds: [eve.id] }, { welcomes: false })
  await quiet()
  assert.deepEqual(cases(eve), [])
  const welcome = { agentId: eve.id, welcome: randomBytes(300) }
  await assert.rejects(bob.request('sendWelcome', { channelId, slot: 1n, welcome }), refusal('not_allowed'))
  const wrong = { agentId: bob.id, welcome: randomBytes(300) }
  await assert.rejects(
    owner.request('sendWelcome', { channelId, slot: 1n, welcome: wrong }),
    refusal('invalid_request'),
  )
  await owner.request('sendWelcome', { channelId, slot: 1n, welcome })
  const late = await eve.next('deliverWelcome')
  assert.equal(toHex(late.welcome?.welcome ?? new Uint8Array()), toHex(welcome.welcome))
})

test('a rejected commit is announced to members, to agents that return and to agents that are out again', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 2)
  const [bob, eve] = others as [Agent, Agent]
  const added = await guest(world)
  await owner.commit(channelId, 1n, { adds: [added.id], removes: [bob.id] })
  await added.next('deliverWelcome')
  await quiet()
  await assert.rejects(eve.request('rejectCommit', { channelId, slot: 1n }), refusal('not_allowed'))
  const vote = await owner.request('rejectCommit', { channelId, slot: 1n })
  assert.deepEqual([vote.rejected, vote.votes, vote.needed], [true, 1, 1])
  for (const agent of [owner, bob, eve, added]) {
    const told = await agent.next('commitRejected')
    assert.equal(toHex(told.sender), toHex(owner.id))
    assert.deepEqual(told.undoneAdds.map(toHex), [toHex(added.id)])
    assert.deepEqual(told.undoneRemoves.map(toHex), [toHex(bob.id)])
  }
  // The Welcome's acknowledgement was on its way.
  added.ack(channelId, 2n)
  await owner.commit(channelId, 2n)
  await bob.request('resume', {})
  await quiet()
  assert.deepEqual(indexes(bob), [2, 2, 3])
  assert.deepEqual((await added.request('resume', {})).channels, [])
})

test('an agent that is added again resumes after its new Welcome, and gets nothing from the time in between', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [bob] = others as [Agent]
  await owner.commit(channelId, 1n, { removes: [bob.id] })
  await owner.send(channelId, 2n, 1n)
  await owner.commit(channelId, 2n, { adds: [bob.id] })
  await owner.send(channelId, 3n, 2n)
  await quiet()
  assert.deepEqual(indexes(bob), [2])
  await bob.next('deliverWelcome')
  assert.equal((await bob.next('deliverWelcome')).position?.index, 4n)
  bob.ack(channelId, 4n)
  await bob.request('resume', {})
  await quiet()
  assert.deepEqual(indexes(bob), [2, 5])
  await bob.send(channelId, 3n, 1n)
})

test('when one commit removes and adds an agent, the old deliveries end with it and the new ones start after it', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [bob] = others as [Agent]
  await bob.next('deliverWelcome')
  await bob.send(channelId, 1n, 1n)
  await owner.commit(channelId, 1n, { removes: [bob.id], adds: [bob.id] })
  await owner.send(channelId, 2n, 1n)
  await quiet()
  assert.deepEqual(indexes(bob), [2, 3])
  assert.equal((await bob.next('deliverWelcome')).position?.index, 3n)
  await bob.request('resume', {})
  await quiet()
  assert.deepEqual(indexes(bob), [2, 3, 4])
  await bob.send(channelId, 2n, 1n)
})

test('an agent that is behind when it is removed and added again gets its deliveries without a hole', async (t) => {
  const world = await openMemoryRelay(t)
  const { owner, others, channelId } = await channelWith(world, 1)
  const [slow] = others as [Agent]
  await slow.next('deliverWelcome')
  slow.deaf = true
  for (let counter = 1n; counter <= 5n; counter++) await owner.send(channelId, 1n, counter, randomBytes(200_000))
  await owner.commit(channelId, 1n, { removes: [slow.id] })
  await owner.commit(channelId, 2n, { adds: [slow.id] })
  await owner.send(channelId, 3n, 6n)
  await quiet()
  slow.hear()
  await quiet()
  // What was on its way, and nothing from the log any more.
  const before = indexes(slow)
  assert.ok(before.length < 5)
  assert.deepEqual(before, upTo(1 + before.length, 2))
  assert.equal((await slow.next('deliverWelcome')).position?.index, 8n)
  await slow.request('resume', {})
  await quiet()
  assert.deepEqual(indexes(slow), [...before, 9])
})
