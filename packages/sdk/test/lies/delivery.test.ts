import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { toHex } from '@static/protocol'
import { GapNoticeSchema } from '@static/protocol/relay'
import { Insider } from '../support/insider.ts'
import { dropping, isCommit, isMessage, once, swapping, withCiphertext } from '../support/lies.ts'
import { goOn, makeCanary } from '../support/lying-system.ts'
import { type Entry, type Room, wired } from '../support/lying-room.ts'
import { code, event, take, takeEnvelope, text } from '../support/test-system.ts'
import { forked, lastMessage, scene } from './scene.ts'

test("1 a message is dropped: the sender's next message reveals it", async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const canary = makeCanary()
  await goOn(...channels)
  const telling = event(clients[1], 'fork_detected')
  room.view(ids[1]).lie = dropping(isMessage)
  await channels[0].send(canary)
  assert.deepEqual(await take(channels[2], 1), [canary])
  await world.relay.read(room, ...ids)
  assert.notEqual(channels[1].verify(), channels[2].verify())
  await channels[0].send('the next one')
  await forked(telling, channels[1], ids[0])
  assert.deepEqual(await take(channels[1], 1), ['the next one'])
  assert.equal(world.relay.sawPlaintext(canary), false)
  // The application knows, and goes on with it.
  channels[1].acceptFork()
  await channels[1].send('all the same')
  assert.deepEqual(await take(channels[0], 1), ['all the same'])
})

test('1 a difference that the application accepted stays accepted after a restart', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t, [{}, { disk: true }])
  await goOn(...channels)
  const telling = event(clients[1], 'fork_detected')
  room.view(ids[1]).lie = dropping(isMessage)
  await channels[0].send('dropped')
  await channels[0].send('the next one')
  await forked(telling, channels[1], ids[0])
  // What was heard is on disk, and only the acceptance is new.
  await world.relay.read(room, ids[1])
  channels[1].acceptFork()
  await clients[1].close()
  const again = await world.agent('bob', { disk: true })
  const forks: unknown[] = []
  void (async () => {
    for await (const told of again.events()) if (told.type === 'fork_detected') forks.push(told)
  })()
  const channel = again.channel(channels[1].name)
  for (const words of ['one', 'two']) await channels[0].send(words)
  assert.deepEqual(await take(channel, 3), ['the next one', 'one', 'two'])
  await channel.send('still')
  assert.deepEqual(forks, [])
})

test('1 a message of another sender is dropped: the next message of any member reveals it', async (t) => {
  const { room, clients, channels, ids } = await scene(t)
  const telling = event(clients[1], 'fork_detected')
  room.view(ids[1]).lie = dropping(isMessage)
  await channels[0].send('dropped')
  assert.deepEqual(await take(channels[2], 1), ['dropped'])
  await channels[2].send('I have seen it')
  await forked(telling, channels[1], ids[2])
})

test('1 the last message is dropped and no one sends again: only verify reveals it', async (t) => {
  const { world, room, channels, ids } = await scene(t)
  await goOn(...channels)
  await world.agree(room, channels, ids)
  room.view(ids[1]).lie = dropping(isMessage)
  await channels[0].send('last words')
  assert.deepEqual(await take(channels[2], 1), ['last words'])
  await world.relay.read(room, ...ids)
  assert.equal(channels[0].verify(), channels[2].verify())
  assert.notEqual(channels[0].verify(), channels[1].verify())
})

test('1 a message is left out with its index: requested three times, then the channel stops', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const [, bob] = clients
  const telling = event(bob, 'channel_failed')
  const view = room.view(ids[1])
  const asked = (): number =>
    world.relay.asked.filter(({ agent, body }) => agent === bob.agentId && body.case === 'resume').length
  const before = asked()
  view.lie = once(isMessage, (entry) => {
    view.hole = view.position.index + 1
    return [entry]
  })
  await channels[0].send('left out')
  await channels[0].send('after it')
  assert.equal((await telling).error.code, 'mls_error')
  assert.equal(asked() - before, 3)
  await assert.rejects(channels[1].send('never'), code('mls_error'))
  assert.deepEqual(await take(channels[2], 2), ['left out', 'after it'])
  await goOn(channels[0], channels[2])
})

test('4 a message is replayed: it is not delivered twice, and the fork is detected', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const canary = makeCanary()
  const failing = event(clients[1], 'decryption_failure')
  const telling = event(clients[1], 'fork_detected')
  room.view(ids[1]).lie = once(isMessage, (entry) => [entry, entry])
  await channels[0].send(canary)
  assert.equal((await failing).sender, ids[0])
  await channels[0].send('after it')
  assert.deepEqual(await take(channels[2], 2), [canary, 'after it'])
  // Carol has another entry where bob has seen the replay.
  await channels[2].send('the next one')
  await forked(telling, channels[1], ids[2])
  assert.deepEqual(await take(channels[1], 3), [canary, 'after it', 'the next one'])
  assert.equal(world.relay.sawPlaintext(canary), false)
})

test('4 a message is replayed under its old index: it is ignored', async (t) => {
  const { world, room, channels, ids } = await scene(t)
  await channels[0].send('once')
  for (const channel of [channels[1], channels[2]]) assert.deepEqual(await take(channel, 1), ['once'])
  const view = room.view(ids[1])
  world.relay.push(ids[1], view.entry(view.position.index)!)
  await goOn(...channels)
  await world.agree(room, channels, ids)
})

for (const [what, isIt, away] of [
  ['message of another', (entry, [alice]) => isMessage(entry) && toHex(entry.value.sender) === alice, -1n],
  ['message of its own', (entry, [, bob]) => isMessage(entry) && toHex(entry.value.sender) === bob, -1n],
  ['commit', isCommit, 1n],
] as const satisfies readonly (readonly [string, (entry: Entry, ids: readonly string[]) => boolean, bigint])[]) {
  test(`4 under an old index there is another ${what}: the relay has another log now, and the channel stops`, async (t) => {
    const { world, room, clients, channels, ids } = await scene(t)
    await channels[2].rotate()
    await goOn(...channels)
    await world.agree(room, channels, ids)
    const telling = event(clients[1], 'channel_failed')
    const entry = room.view(ids[1]).entries.findLast((one) => isIt(one, ids)) ?? assert.fail(`no ${what}`)
    world.relay.push(ids[1], { ...entry, value: { ...entry.value, index: entry.value.index + away } } as Entry)
    await assert.rejects(channels[1].send('never'), code('relay_rolled_back'))
    assert.equal((await telling).error.code, 'relay_rolled_back')
    await goOn(channels[0], channels[2])
  })
}

test("12 an insider encrypts another's signed message again: the application does not get it twice", async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const mallory = await Insider.join(world.relay, channels[0])
  const telling = [clients[1], clients[2]].map((client) => event(client, 'fork_detected'))
  await channels[0].send('pay 100')
  await mallory.follow()
  const { ciphertext, messageId, counter } = lastMessage(room)
  room.view(ids[0]).lie = () => []
  mallory.put(mallory.reseal(ciphertext), { sender: ids[0], messageId, counter: Number(counter) })
  for (const told of telling) assert.equal((await told).member, ids[0])
  await world.relay.read(room, ids[1], ids[2])
  for (const channel of [channels[1], channels[2]]) {
    channel.acceptFork()
    assert.deepEqual(await take(channel, 1), ['pay 100'])
  }
  await channels[1].send('what comes next')
  assert.deepEqual(await take(channels[2], 1), ['what comes next'])
})

for (const [name, counter, gap] of [
  ['behind a gap that the relay has made up', 1, true],
  ['under another counter', 2, false],
] as const) {
  test(`12 the same ${name}`, async (t) => {
    const { world, room, clients, channels, ids } = await scene(t)
    const mallory = await Insider.join(world.relay, channels[0])
    await channels[0].send('pay 100')
    for (const channel of [channels[1], channels[2]]) assert.deepEqual(await take(channel, 1), ['pay 100'])
    await mallory.follow()
    const telling = event(clients[1], 'fork_detected')
    if (gap) {
      const view = room.view(ids[1])
      const { index, hash, slot } = view.position
      view.skip({ index: index + 1, hash, slot })
      const position = { $typeName: 'static.relay.v1.Position' as const, ...wired(view.position) }
      const value = create(GapNoticeSchema, { channelId: room.channelId, firstIndex: BigInt(index + 1), position })
      world.relay.push(ids[1], { case: 'gap', value })
    }
    const { ciphertext, messageId } = lastMessage(room)
    // Only bob is shown it.
    for (const other of [ids[0], ids[2]]) room.view(other).lie = once(isMessage, () => [])
    mallory.put(mallory.reseal(ciphertext), { sender: ids[0], messageId, counter })
    await channels[2].send('the next one')
    assert.deepEqual(await take(channels[1], 1), ['the next one'])
    assert.equal((await telling).member, ids[0])
  })
}

test("12 an insider sends another's ciphertext as its own: skipped", async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const mallory = await Insider.join(world.relay, channels[0])
  const canary = makeCanary()
  // The relay keeps the message back and lets mallory say it first.
  const views = [room.view(ids[1]), room.view(ids[2])]
  for (const view of views) view.lie = dropping(isMessage)
  await channels[0].send(canary)
  const failing = [clients[1], clients[2]].map((client) => event(client, 'decryption_failure'))
  const { ciphertext, messageId } = lastMessage(room)
  mallory.put(ciphertext, { messageId })
  for (const told of failing) assert.equal((await told).sender, mallory.agentId)
  await channels[1].send('nothing came')
  assert.deepEqual(await take(channels[2], 1), ['nothing came'])
  assert.equal(world.relay.sawPlaintext(canary), false)
})

const GARBAGE: readonly (readonly [string, (bytes: Uint8Array) => Uint8Array])[] = [
  ['garbage', (bytes) => new Uint8Array(randomBytes(bytes.length))],
  ['no byte', () => new Uint8Array()],
  ['a truncated message', (bytes) => bytes.slice(0, bytes.length / 2)],
  ['a message with a changed byte', (bytes) => bytes.with(bytes.length - 40, bytes.at(-40)! ^ 1)],
  ['an oversized message', (bytes) => Buffer.concat([bytes, new Uint8Array(300_000)])],
]

for (const [name, spoil] of GARBAGE) {
  test(`14 ${name} in place of one: skipped, and the fork is detected`, async (t) => {
    const { world, room, clients, channels, ids } = await scene(t)
    const canary = makeCanary()
    const failing = event(clients[1], 'decryption_failure')
    const telling = event(clients[1], 'fork_detected')
    room.view(ids[1]).lie = once(isMessage, (entry) => [
      withCiphertext(entry, spoil(entry.case === 'deliverMessage' ? entry.value.ciphertext : new Uint8Array())),
    ])
    await channels[0].send(canary)
    assert.equal((await failing).sender, ids[0])
    assert.deepEqual(await take(channels[2], 1), [canary])
    await channels[2].send('the next one')
    await forked(telling, channels[1], ids[2])
    assert.deepEqual(await take(channels[1], 1), ['the next one'])
    assert.equal(world.relay.sawPlaintext(canary), false)
  })
}

test('20 two messages are swapped just before a commit: the first message after it reveals it', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  await goOn(...channels)
  await world.relay.read(room, ...ids)
  const telling = event(clients[1], 'fork_detected')
  room.view(ids[1]).lie = swapping(isMessage)
  // Of two senders, so that their counters and own chains say nothing.
  await channels[0].send('one')
  await channels[2].send('two')
  assert.deepEqual(await take(channels[1], 2), ['two', 'one'])
  await channels[2].rotate()
  await world.relay.read(room, ...ids)
  assert.equal(room.log.findLastIndex(isCommit), room.log.length - 1)
  await channels[2].send('in the new epoch')
  await forked(telling, channels[1], ids[2])
  assert.notEqual(channels[1].verify(), channels[2].verify())
})

for (const [name, seen] of [
  ['another hash', (room: Room) => ({ index: room.log.length, hash: new Uint8Array(32) })],
  ['an entry that does not exist', (room: Room) => ({ index: room.log.length + 5, hash: new Uint8Array(32) })],
] as const) {
  test(`21 a member claims to have seen ${name}: all members stop until the owner removes it`, async (t) => {
    const { world, room, clients, channels, ids } = await scene(t)
    const mallory = await Insider.join(world.relay, channels[0])
    mallory.say(mallory.frame('honest'))
    for (const channel of channels) assert.deepEqual(await take(channel, 1), ['honest'])
    const telling = clients.map((client) => event(client, 'fork_detected'))
    mallory.say(mallory.frame('false', { seen: seen(room) }))
    for (const [at, channel] of channels.entries()) await forked(telling[at]!, channel, mallory.agentId)
    await assert.rejects(channels[0].resetRoster(), code('fork_detected'))
    const canary = makeCanary()
    await channels[0].removeMember(mallory.agentId)
    await world.relay.read(room, ...ids)
    await channels[1].send(canary)
    await mallory.follow()
    assert.equal(mallory.opens(lastMessage(room).ciphertext), false)
    for (const channel of [channels[0], channels[2]]) assert.deepEqual(await take(channel, 2), ['false', canary])
    assert.equal(world.relay.sawPlaintext(canary), false)
  })
}

test('22 an entry that no one can decrypt: every member skips it and continues', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const mallory = await Insider.join(world.relay, channels[0])
  const failing = clients.map((client) => event(client, 'decryption_failure'))
  mallory.put(new Uint8Array(randomBytes(1914)))
  for (const told of failing) {
    const { sender, index } = await told
    assert.deepEqual([sender, index], [mallory.agentId, room.log.length])
  }
  const canary = makeCanary()
  await channels[1].send(canary)
  assert.deepEqual([await take(channels[0], 1), text((await takeEnvelope(channels[2])).payload)], [[canary], canary])
  await goOn(...channels)
  await world.agree(room, channels, ids)
  assert.equal(world.relay.sawPlaintext(canary), false)
})
