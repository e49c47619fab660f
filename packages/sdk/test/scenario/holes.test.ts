/** Calls at the wrong time and with the wrong arguments: each is refused by its code, and everything else goes on. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseChannelName, toHex } from '@static/protocol'
import { fakeGroup } from '../support/fake-group.ts'
import { code, NAME, take, text, WAYS, TestSystem } from '../support/test-system.ts'

const OTHER = 'acme/support/other'
const DAY_SECONDS = 86_400

for (const way of WAYS) {
  test(`revokeInvite after the channel was deleted: invite_invalid, and other channels go on, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const [owner, bob] = [await world.manager('owner'), await world.manager('bob')]
    await owner.create(NAME)
    await owner.create(OTHER)
    const token = await owner.invite(NAME)
    const kept = await owner.invite(OTHER)
    await owner.client.channel(NAME).delete()
    await assert.rejects(owner.revokeInvite(token), code('invite_invalid'))
    await bob.joinWithToken(OTHER, kept, 20)
    await owner.send(OTHER, 'on')
    assert.equal(text((await bob.receive(OTHER, 20))!), 'on')
    await owner.revokeInvite(kept)
    // The name is free again, and the next invite to it a good one.
    await owner.create(NAME)
    await bob.joinWithToken(NAME, await owner.invite(NAME), 20)
  })

  test(`two receive at once get two payloads, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const [owner, bob] = [await world.manager('owner'), await world.manager('bob')]
    await owner.create(NAME)
    await bob.joinWithToken(NAME, await owner.invite(NAME), 20)
    const both = Promise.all([bob.receive(NAME, 20), bob.receive(NAME, 20)])
    await owner.send(NAME, 'one')
    await owner.send(NAME, 'two')
    const received = (await both).map((payload) => text(payload!))
    assert.deepEqual(received.sort(), ['one', 'two'])
    // One that waited in vain is still first in line, and no payload is given to it alone.
    assert.equal(await bob.receive(NAME, 0.01), null)
    const next = Promise.all([bob.receive(NAME, 20), bob.receive(NAME, 20)])
    await owner.send(NAME, 'three')
    await owner.send(NAME, 'four')
    assert.deepEqual((await next).map((payload) => text(payload!)).sort(), ['four', 'three'])
  })

  test(`an invite lives for a year at most, and a receive may wait forever, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const [owner, bob] = [await world.manager('owner'), await world.manager('bob')]
    await owner.create(NAME)
    for (const ttl of [Infinity, 366 * DAY_SECONDS, Number.NaN, Number.MAX_VALUE, 0, -1]) {
      await assert.rejects(owner.invite(NAME, { ttl }), code('invalid_request', /time to live/), String(ttl))
    }
    const waiting = owner.receive(NAME, Infinity)
    await bob.joinWithToken(NAME, await owner.invite(NAME, { ttl: 365 * DAY_SECONDS }), 20)
    await bob.send(NAME, 'at last')
    assert.equal(text((await waiting)!), 'at last')
  })
}

test('a Welcome with the id of a held channel: refused, and the owner still reads what is sent', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const [alice, bob] = [await world.agent('alice'), await world.agent('bob')]
  const [a, b] = await world.channel(alice, [bob])
  const name = parseChannelName('mallory/x/y')
  const victim = await bob.generateKeyPackage()
  const { welcome, mallory } = await fakeGroup({ channelId: Buffer.from(a!.id, 'hex'), name, victim })
  await assert.rejects(bob.joinChannel(name, welcome, { owner: toHex(mallory.agentId) }), code('channel_exists'))
  await bob.channel(NAME).send('for alice only')
  assert.deepEqual(await take(a!, 1), ['for alice only'])
  await a!.send('for bob')
  assert.deepEqual(await take(b!, 1), ['for bob'])
  assert.equal(b!.owner, alice.fingerprint())
})

test('a real owner does not leave its channel: it goes on', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const [alice, bob] = [await world.agent('alice'), await world.agent('bob')]
  const [a, b] = await world.channel(alice, [bob])
  await assert.rejects(a!.leave(), code('not_allowed'))
  await world.relay.restart()
  await a!.send('still here')
  assert.deepEqual(await take(b!, 1), ['still here'])
  await assert.rejects(a!.addMember(await bob.generateKeyPackage()), code('invalid_request', /already/))
  await b!.send('I, too')
  assert.deepEqual(await take(a!, 1), ['I, too'])
})
