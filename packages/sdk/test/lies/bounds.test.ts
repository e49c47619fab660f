/** Values beyond all bounds, from the relay, a member or the owner of a channel: they stop no agent, now or after a restart. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { ed25519 } from '@static/node/ed25519'
import { HASH_BYTES, leaveBytes, parseChannelName, toHex } from '@static/protocol'
import { GapNoticeSchema } from '@static/protocol/relay'
import { encodeFrame } from '../../src/channel/sending/message-frame.ts'
import { packIdOf } from '../../src/channel/sending/pack.ts'
import type { AgentId, ServerBody } from '../../src/ports/index.ts'
import { engine } from '../mls/support.ts'
import { delivering, fakeGroup } from '../support/fake-group.ts'
import { Insider } from '../support/insider.ts'
import { Room, View } from '../support/lying-room.ts'
import { goOn, LyingSystem } from '../support/lying-system.ts'
import { code, event, NAME, take } from '../support/test-system.ts'
import { scene } from './scene.ts'

const OWN = 'acme/support/own'

/** A gap of one entry, next in an agent's log, that ends as `end` says. */
function gap(room: Room, agent: AgentId, end: { readonly index?: bigint; readonly hash?: Uint8Array }): ServerBody {
  const { index, slot } = room.view(agent).position
  const position = { index: BigInt(index + 1), hash: randomBytes(HASH_BYTES), slot: BigInt(slot), ...end }
  const value = { channelId: room.channelId, firstIndex: BigInt(index + 1), position }
  return { case: 'gap', value: create(GapNoticeSchema, value) }
}

const ENDS = {
  'a hash of no bytes': { end: { hash: new Uint8Array() }, fault: /it sent 0 bytes as hash/ },
  'a hash of 31 bytes': { end: { hash: randomBytes(31) }, fault: /it sent 31 bytes as hash/ },
  'a hash of 200 bytes': { end: { hash: randomBytes(200) }, fault: /it sent 200 bytes as hash/ },
  'an index beyond 2^52': { end: { index: 2n ** 52n + 1n }, fault: /it sent a number out of range/ },
  'the largest index that is exact': { end: { index: 2n ** 53n - 1n }, fault: /it sent a number out of range/ },
}

for (const [name, { end, fault }] of Object.entries(ENDS)) {
  test(`a gap that ends at ${name} ends the session, and nothing else`, async (t) => {
    const { world, room, clients, channels, ids } = await scene(t, [{}, { disk: true }])
    await goOn(...channels)
    await world.relay.read(room, ...ids)
    const ending = Promise.race([event(clients[1], 'disconnected'), event(clients[1], 'gap')])
    world.relay.push(ids[1], gap(room, ids[1], end))
    const told = await ending
    assert.ok(told.type === 'disconnected', 'the gap is believed')
    assert.match(told.error.message, fault)
    await goOn(...channels)
  })
}

test('a channel whose chain hash on disk has another length is broken alone, and can be left', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.agent('alice')
  const first = await world.agent('bob', { disk: true })
  const { channels } = await world.channel([alice, first])
  await goOn(...channels)
  await first.createChannel(OWN)
  await first.close()
  const parts = await world.parts('bob', { disk: true })
  const { record } = parts.store.load().channels.find((stored) => stored.record.name === NAME)!
  const position = { ...record.position, hash: new Uint8Array(randomBytes(200)) }
  parts.store.write([{ type: 'putChannel', record: { ...record, position } }])
  parts.store.close()
  const bob = await world.agent('bob', { disk: true })
  await channels[0]!.send('one')
  await assert.rejects(bob.channel(NAME).send('never'), code('mls_error'))
  await bob.channel(OWN).send('still here')
  await bob.channel(NAME).leave()
  assert.deepEqual(
    bob.channels().map(({ name }) => name),
    [OWN],
  )
})

test('a gap to the largest number that an agent accepts: its channels continue, even after a restart', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.agent('alice')
  const first = await world.agent('bob', { disk: true })
  const { room, channels } = await world.channel([alice, first])
  const reading = take(channels[1]!, 1)
  await channels[0]!.send('before')
  assert.deepEqual(await reading, ['before'])
  const own = await first.createChannel(OWN)
  const skipping = event(first, 'gap')
  world.relay.push(first.agentId, gap(room, first.agentId, { index: 2n ** 52n }))
  assert.equal((await skipping).last, 2 ** 52)
  await own.send('still here')
  await first.close()
  const again = await world.agent('bob', { disk: true })
  await again.channel(OWN).send('still here')
})

/** An agent that mallory offers a channel whose group is in this epoch. */
async function offered(t: TestContext, epoch: bigint) {
  const world = LyingSystem.start(t)
  const bob = await world.agent('bob', { disk: true })
  const { relay } = world
  await relay.until(() => relay.keyPackages.get(bob.agentId) !== undefined)
  const own = await bob.createChannel(OWN)
  const victim = relay.keyPackages.get(bob.agentId)!.shift()!
  const pretence = { channelId: new Uint8Array(randomBytes(16)), name: parseChannelName('mallory/x/y'), victim, epoch }
  const { welcome, mallory } = await fakeGroup(pretence)
  return { world, bob, own, pretence, mallory, delivered: delivering(pretence, welcome) }
}

test('the owner of a channel in an epoch beyond the last offers it: the offer is refused', async (t) => {
  for (const epoch of [2n ** 52n + 1n, 2n ** 60n]) {
    const { world, bob, own, delivered } = await offered(t, epoch)
    const answering = Promise.race([event(bob, 'welcome_refused'), bob.joins().next()])
    world.relay.welcomeTo(bob.agentId, delivered)
    const refused = await answering
    assert.ok('type' in refused, 'the offer is taken')
    assert.equal(refused.error.code, 'invalid_welcome')
    assert.match(refused.error.message, new RegExp(`in epoch ${epoch}; the last possible one is 4503599627370496`))
    await own.send('still here')
  }
})

test('a message in the last epoch is received and stored, and no commit can end that epoch', async (t) => {
  const { world, bob, own, pretence, mallory, delivered } = await offered(t, 2n ** 52n)
  const { relay } = world
  const start = { index: 2, hash: delivered.position!.hash, slot: 2 }
  const room = new Room(pretence.channelId, pretence.name, toHex(mallory.agentId))
  relay.rooms.set(toHex(pretence.channelId), room)
  for (const agent of [bob.agentId, toHex(mallory.agentId)]) room.views.set(agent, new View(start))
  const offers = bob.joins()
  relay.welcomeTo(bob.agentId, delivered)
  const channel = await (await offers.next()).value!.accept()
  const messageId = packIdOf(randomBytes(16))
  const frame = { kind: 'payload', messageId, counter: 1, previous: new Uint8Array(32), seen: start } as const
  const ciphertext = mallory.send(encodeFrame({ ...frame, payload: Buffer.from('hello') }))
  room.message(toHex(mallory.agentId), { slot: 2n, messageId, counter: 1n, control: false, ciphertext })
  relay.deliver()
  await relay.read(room, bob.agentId)
  await own.send('still here')
  await assert.rejects(channel.rotate(), /can no longer be changed, after 4503599627370496 epochs/)
  await bob.close()
  const again = await world.agent('bob', { disk: true })
  assert.deepEqual(await take(again.channel(pretence.name), 1), ['hello'])
  await again.channel(OWN).send('still here')
})

test('a leave notice with a key of another length is no notice: every agent starts again', async (t) => {
  const calm = { chance: () => 0.99 }
  const { world, room, clients, channels } = await scene(t, [calm, { ...calm, disk: true }, calm])
  const mallory = await Insider.join(world.relay, channels[0])
  await goOn(...channels)
  await mallory.follow()
  const slot = BigInt(room.view(mallory.agentId).position.slot)
  const leafKeys = [Uint8Array.from(engine.facts(mallory.mls.group).own.encryptionKey), new Uint8Array(randomBytes(17))]
  const signature = ed25519.signer(mallory.mls.key)(leaveBytes(room.channelId, { slot, leafKeys }))
  room.leave(mallory.agentId, { publicKey: mallory.mls.key.publicKey, slot, leafKeys, signature })
  const ending = Promise.race([event(clients[1], 'disconnected'), world.relay.read(room, clients[1].agentId)])
  world.relay.deliver()
  const told = await ending
  assert.match(told?.error.message ?? 'the notice is taken', /violated the protocol: it sent 17 bytes as leafKeys/)
  await clients[1].close()
  const again = await world.agent('bob', { disk: true })
  assert.equal(again.channels().length, 1)
})
