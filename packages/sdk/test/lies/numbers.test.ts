/** Numbers and codes that no honest relay sends. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { DeliverMessageSchema, DeliverWelcomeSchema, GapNoticeSchema, PositionSchema } from '@static/protocol/relay'
import { fromHex } from '@static/protocol'
import { inviteKeys } from '../../src/admitting/keys.ts'
import { decodeToken } from '../../src/admitting/token.ts'
import type { ServerBody } from '../../src/ports/index.ts'
import { Insider } from '../support/insider.ts'
import { answering } from '../support/lying-relay.ts'
import { goOn, LyingSystem } from '../support/lying-system.ts'
import { type Room, wired } from '../support/lying-room.ts'
import { code, event, NAME } from '../support/test-system.ts'
import { scene } from './scene.ts'

/** Just beyond what an agent takes, the last that JavaScript counts exactly, and the largest of the wire. */
const TOO_LARGE = [2n ** 52n + 1n, 2n ** 53n - 1n, 2n ** 64n - 1n]

/** What the relay tells bob, next in his log. */
const LIES: Readonly<Record<string, (number: bigint, room: Room, bob: string, mallory: Insider) => ServerBody>> = {
  'the position of a Welcome': (number) => ({
    case: 'deliverWelcome',
    value: create(DeliverWelcomeSchema, {
      channelId: randomBytes(16),
      name: 'acme/support/new',
      slot: 1n,
      sender: randomBytes(32),
      welcome: { welcome: randomBytes(100) },
      position: { index: number, hash: randomBytes(32), slot: 2n },
    }),
  }),
  'the end of a gap': (number, { channelId, views }, bob) => {
    const { index, slot } = views.get(bob)!.position
    const position = { index: number, hash: randomBytes(32), slot: BigInt(slot) }
    const gap = { channelId, firstIndex: BigInt(index + 1), commitLost: false, position }
    return { case: 'gap', value: create(GapNoticeSchema, gap) }
  },
  'the time of a message': (number, { channelId, views }, bob, mallory) => {
    const { index, slot } = views.get(bob)!.position
    const frame = mallory.frame('when?')
    return {
      case: 'deliverMessage',
      value: create(DeliverMessageSchema, {
        channelId,
        index: BigInt(index + 1),
        slot: BigInt(slot),
        sender: fromHex(mallory.agentId),
        messageId: frame.subarray(2, 18),
        counter: 1n,
        ciphertext: mallory.mls.send(frame),
        acceptedAtMs: number,
      }),
    }
  },
}

for (const [name, lie] of Object.entries(LIES)) {
  test(`${name} that is out of range ends the session, and nothing else`, async (t) => {
    const { world, room, clients, channels, ids } = await scene(t, [{}, { disk: true }])
    const mallory = await Insider.join(world.relay, channels[0])
    await world.agree(room, channels, ids)
    for (const number of TOO_LARGE) {
      const ending = event(clients[1], 'disconnected')
      const connecting = event(clients[1], 'connected')
      world.relay.push(ids[1], lie(number, room, ids[1], mallory))
      const { error } = await ending
      assert.equal(error.code, 'connection_error')
      assert.match(error.message, /violated the protocol: it sent a number out of range/)
      await connecting
    }
    // The relay is honest again: nothing of it was taken or stored.
    await goOn(...channels)
    await world.agree(room, channels, ids)
    const { position } = room.view(ids[1])
    await world.relay.until(() => room.view(ids[1]).cursor === position.index)
    assert.equal(world.stores.get('bob')!.load().channels[0]!.record.position.index, position.index)
  })
}

test('a time too late for a Date becomes the latest valid time', async (t) => {
  const { world, room, channels, ids } = await scene(t, [{}, {}])
  const mallory = await Insider.join(world.relay, channels[0])
  await world.agree(room, channels, ids)
  world.relay.push(ids[1], LIES['the time of a message']!(2n ** 52n, room, ids[1], mallory))
  const { value } = await channels[1].envelopes().next()
  assert.equal(value?.time.toISOString(), '9999-12-31T23:59:59.999Z')
})

for (const [name, change] of Object.entries({
  lastIndex: (number: bigint) => ({ lastIndex: number }),
  head: (number: bigint) => ({ head: number }),
  lastCounter: (number: bigint) => ({ lastCounter: number }),
  cursor: (number: bigint, room: Room, bob: string) => ({
    cursor: create(PositionSchema, { ...wired(room.view(bob).position), index: number }),
  }),
})) {
  test(`a Resume whose ${name} is out of range ends the session, and nothing else`, async (t) => {
    const { world, room, clients, channels, ids } = await scene(t, [{}, { disk: true }])
    for (const number of TOO_LARGE) {
      let lied = false
      world.relay.answer = (agent, _asked, honest) => {
        const answer = honest()
        if (lied || agent !== ids[1] || answer?.case !== 'resume') return answer
        lied = true
        const states = answer.value.channels.map((state) => ({ ...state, ...change(number, room, ids[1]) }))
        return answering({ case: 'resume', value: { channels: states } })
      }
      const ending = event(clients[1], 'disconnected', ({ error }) => /out of range/.test(error.message))
      world.relay.cut(ids[1])
      await ending
    }
    await goOn(...channels)
    await world.agree(room, channels, ids)
  })
}

for (const name of ['constructor', '__proto__', 'toString', 'not_known']) {
  test(`a join answered with the code ${name} fails with invite_invalid`, async (t) => {
    const world = LyingSystem.start(t)
    const [alice, bob] = [await world.manager('alice'), await world.manager('bob')]
    const channel = await alice.create(NAME)
    const token = await alice.invite(NAME, { maxUses: 2 })
    const { inviteId } = inviteKeys(decodeToken(token).secret)
    const handOut = world.relay.handOut.bind(world.relay)
    world.relay.handOut = () => {}
    const joining = bob.joinWithToken(NAME, token)
    joining.catch(() => {})
    await world.relay.until(() => world.relay.joins.length === 1)
    world.relay.push(bob.client.agentId, answering({ case: 'joinAnswered', value: { inviteId, code: name } }))
    await assert.rejects(joining, code('invite_invalid'))
    world.relay.joins.length = 0
    world.relay.handOut = handOut
    await goOn(channel, await bob.joinWithToken(NAME, token))
  })
}
