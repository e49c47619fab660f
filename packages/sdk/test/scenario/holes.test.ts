/**
 * Calls at the wrong time and with the wrong arguments: each is refused by its code, and everything else goes on. And
 * what a member finds that was away too long.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseChannelName, toHex } from '@static/protocol'
import { Cutter } from '../support/cutter.ts'
import { fakeGroup } from '../support/fake-group.ts'
import { code, event, NAME, take, text, waysFor, TestSystem } from '../support/test-system.ts'

const OTHER = 'acme/support/other'
const DAY_SECONDS = 86_400

for (const way of waysFor('grpc')) {
  test(`revokeInvite after the channel was deleted: invite_invalid, and other channels continue, ${way}`, async (t) => {
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

  test(`two concurrent receives get two payloads, ${way}`, async (t) => {
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

  test(`an invite lasts at most a year, and a receive may wait forever, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const [owner, bob] = [await world.manager('owner'), await world.manager('bob')]
    await owner.create(NAME)
    for (const ttl of [Infinity, 366 * DAY_SECONDS, Number.NaN, Number.MAX_VALUE, 0, -1]) {
      await assert.rejects(owner.invite(NAME, { ttl }), code('invalid_request', /`ttl` is /), String(ttl))
    }
    const waiting = owner.receive(NAME, Infinity)
    await bob.joinWithToken(NAME, await owner.invite(NAME, { ttl: 365 * DAY_SECONDS }), 20)
    await bob.send(NAME, 'at last')
    assert.equal(text((await waiting)!), 'at last')
  })
}

for (const way of waysFor('quic')) {
  test(`a member whose last acknowledgements were lost comes back to a gap and continues, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way, { settings: { retention: { channelEntries: 40 } } })
    const cutter = new Cutter()
    const [alice, carol] = [await world.agent('alice'), await world.agent('carol')]
    const bob = await world.agent('bob', { transport: cutter.wrap })
    const [a, , c] = await world.channel(alice, [bob, carol])
    const b = bob.channel(NAME)
    await a!.send('before')
    for (const channel of [b, c!]) assert.deepEqual(await take(channel, 1), ['before'])
    cutter.loseAcks()
    // A commit that bob has followed and the relay does not know that it has.
    await a!.rotate()
    const read = Array.from({ length: 5 }, (_, n) => `read ${n}`)
    for (const words of read) await a!.send(words)
    for (const channel of [b, c!]) assert.deepEqual(await take(channel, 5), read)
    await bob.close()
    for (let n = 0; n < 100; n++) {
      await a!.send(`missed ${n}`)
      assert.deepEqual(await take(c!, 1), [`missed ${n}`])
      // To resume is to have the relay store what was acknowledged: only bob lags.
      if (n % 4 === 0) await Promise.all([a!.catchUp(), c!.catchUp()])
    }
    const again = await world.agent('bob')
    const failing = event(again, 'channel_failed').then(({ error }) => Promise.reject(error))
    const { first, last } = await Promise.race([event(again, 'gap'), failing])
    assert.ok(first > 5 && last > first, `${first} to ${last}`)
    const back = again.channel(NAME)
    await a!.send('after')
    const rest: string[] = []
    while (rest.at(-1) !== 'after') rest.push(...(await take(back, 1)))
    assert.equal(rest.length, 101 - (last - first + 1))
    assert.deepEqual(await take(c!, 1), ['after'])
    await back.send('still here')
    assert.deepEqual([await take(a!, 1), await take(c!, 1)], [['still here'], ['still here']])
    assert.equal(back.verify(), a!.verify())
    failing.catch(() => {})
  })
}

for (const way of waysFor('grpc')) {
  test(`a member removed while offline gets the messages before that, then removed, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    const [alice, bob, carol] = [await world.agent('alice'), await world.agent('bob'), await world.agent('carol')]
    const [a, , c] = await world.channel(alice, [bob, carol])
    await bob.close()
    const words = Array.from({ length: 100 }, (_, n) => `while away ${n}`)
    for (const each of words) await a!.send(each)
    await a!.removeMember(bob.agentId)
    await a!.send('not for bob')
    assert.equal((await take(c!, 101)).length, 101)
    // To resume is to have the relay store what was acknowledged: all but bob have everything.
    await Promise.all([a!.catchUp(), c!.catchUp()])
    const again = await world.agent('bob')
    const failing = event(again, 'channel_failed')
    assert.deepEqual(await take(again.channel(NAME), 100), words)
    assert.equal((await failing).error.code, 'removed')
  })
}

test('a member removed while offline too long gets a gap event, then removed', async (t) => {
  const world = await TestSystem.start(t, 'grpc', { settings: { retention: { channelEntries: 40 } } })
  const [alice, bob, carol] = [await world.agent('alice'), await world.agent('bob'), await world.agent('carol')]
  const [a, b, c] = await world.channel(alice, [bob, carol])
  await b!.catchUp()
  await bob.close()
  await a!.send('while away')
  await a!.removeMember(bob.agentId)
  assert.deepEqual(await take(c!, 1), ['while away'])
  for (let n = 0; n < 40; n++) {
    await a!.send(`not for bob ${n}`)
    assert.deepEqual(await take(c!, 1), [`not for bob ${n}`])
    if (n % 4 === 0) await Promise.all([a!.catchUp(), c!.catchUp()])
  }
  const again = await world.agent('bob')
  const [gap, failed] = await Promise.all([event(again, 'gap'), event(again, 'channel_failed')])
  assert.equal(gap.last - gap.first + 1, 2)
  assert.equal(failed.error.code, 'removed')
})

for (const words of [['before'], []]) {
  test(`a member removed and added again while offline gets a gap event, then joins again, after sending ${words.length} messages`, async (t) => {
    const world = await TestSystem.start(t, 'grpc')
    const [alice, bob, carol] = [await world.agent('alice'), await world.agent('bob'), await world.agent('carol')]
    const [a, b, c] = await world.channel(alice, [bob, carol])
    for (const one of words) await b!.send(one)
    await take(a!, words.length)
    await b!.catchUp()
    await bob.close()
    await a!.send('while away')
    await a!.removeMember(bob.agentId)
    await a!.send('not for bob')
    await a!.addMember(bob.agentId)
    await a!.send('for bob again')
    assert.equal((await take(c!, words.length + 3)).length, words.length + 3)
    const away = await world.agent('bob')
    const [gap, failed] = await Promise.all([event(away, 'gap'), event(away, 'channel_failed')])
    assert.ok(gap.last > gap.first)
    assert.equal(failed.error.code, 'removed')
    await away.close()
    const again = await world.agent('bob')
    for await (const offer of again.joins()) {
      assert.deepEqual(await take(await offer.accept(), 1), ['for bob again'])
      break
    }
  })
}

test('a member that is removed and added again before it has processed the removal gets the Welcome', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const cutter = new Cutter()
  const alice = await world.agent('alice')
  const bob = await world.agent('bob', { transport: cutter.wrap })
  const [a, b] = await world.channel(alice, [bob])
  await b!.catchUp()
  const offers = bob.joins()
  cutter.hold()
  await a!.removeMember(bob.agentId)
  await a!.addMember(bob.agentId)
  // By its answer the relay has sent bob everything.
  await a!.catchUp()
  cutter.release()
  const { value: offer } = await offers[Symbol.asyncIterator]().next()
  const again = await offer!.accept()
  await a!.send('for bob again')
  assert.deepEqual(await take(again, 1), ['for bob again'])
})

test('a Welcome with the id of an existing channel is refused, and the owner still reads messages', async (t) => {
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

test('a real owner cannot leave its channel, which continues', async (t) => {
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
