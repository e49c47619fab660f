/** What a relay or a member can do to an agent by refusing, forgetting and repeating. */
import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import { parseChannelName, toHex } from '@static/protocol'
import { POOLED } from '../../src/agent/key-packages.ts'
import { inviteKeys } from '../../src/admitting/keys.ts'
import { decodeToken } from '../../src/admitting/token.ts'
import { StaticChannelManager } from '../../src/public/manager.ts'
import { answering } from '../support/lying-relay.ts'
import { goOn, LyingSystem, RELAY } from '../support/lying-system.ts'
import { code, event, NAME, take } from '../support/test-system.ts'

test('an invite is revoked while a join request is checked: no one gets in, and it stays revoked', async (t) => {
  const world = LyingSystem.start(t)
  const parts = await world.parts('alice')
  let check = (): void => {}
  const engine: typeof parts.engine = {
    ...parts.engine,
    checkKeyPackage: async (...args) => {
      const checked = await parts.engine.checkKeyPackage(...args)
      check()
      return checked
    },
  }
  const alice = await StaticChannelManager.start({ ...parts, engine }, RELAY)
  t.after(() => alice.close())
  const [bob, carol] = [await world.manager('bob'), await world.manager('carol')]
  const channel = await alice.create(NAME)
  const token = await alice.invite(NAME, { maxUses: 5 })
  // By which she asks on for those who want to join.
  const another = await alice.invite(NAME)
  // The relay forgets nothing of the invite.
  world.relay.answer = (_agent, asked, honest) =>
    asked.case === 'revokeInvite' ? answering({ case: 'revokeInvite', value: {} }) : honest()
  const revoking = Promise.withResolvers<void>()
  check = () => {
    check = () => {}
    alice.revokeInvite(token).then(revoking.resolve, revoking.reject)
  }
  await assert.rejects(bob.joinWithToken(NAME, token), code('invite_revoked'))
  await revoking.promise
  await assert.rejects(carol.joinWithToken(NAME, token), code('invite_revoked'))
  const id = toHex(inviteKeys(decodeToken(token).secret).inviteId)
  const stored = world.stores
    .get('alice')!
    .load()
    .invites.find((invite) => invite.id === id)
  assert.deepEqual([stored?.revoked, stored?.uses], [true, 0])
  assert.equal(channel.members().length, 1)
  await goOn(channel, await bob.joinWithToken(NAME, another))
})

test('an owned channel was deleted elsewhere with unread payloads: createChannel creates a new one', async (t) => {
  const world = LyingSystem.start(t)
  const [alice, bob] = await world.agents('alice', 'bob')
  const { room, channels } = await world.channel([alice, bob])
  await channels[1]!.send('unread')
  await world.agree(room, channels, [alice.agentId, bob.agentId])
  const ending = [alice, bob].map((client) => event(client, 'channel_failed'))
  const { channelId } = room
  for (const { agentId } of [alice, bob]) {
    world.relay.push(agentId, answering({ case: 'channelDeleted', value: { channelId, name: NAME } }))
  }
  world.relay.rooms.delete(channels[0]!.id)
  await Promise.all(ending)
  const created = await alice.createChannel(NAME)
  assert.notEqual(created.id, channels[0]!.id)
  assert.equal(await alice.createChannel(NAME), created)
  const asked = world.relay.requests(alice.agentId, 'createChannel')
  assert.deepEqual(
    asked.map(({ welcome }) => welcome.length > 0),
    [true, true],
  )
  await channels[1]!.leave()
  await goOn(created, await bob.joinChannel(NAME, await created.addMember(await bob.generateKeyPackage())))
})

test('a call that waits to retry is rejected when the client is closed', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.agent('alice')
  world.relay.answer = (_agent, asked, honest) =>
    asked.case === 'createChannel'
      ? answering({ case: 'error', value: { code: 'rate_limited', retryAfterMs: 500_000 } })
      : honest()
  const creating = alice.createChannel(NAME)
  creating.catch(() => {})
  await world.relay.until(() => world.relay.requests(alice.agentId, 'createChannel').length === 1)
  await alice.close()
  await assert.rejects(creating, code('closed'))
})

test('the owner cannot leave: not_allowed at once, and the channel continues, also in the next session', async (t) => {
  const world = LyingSystem.start(t)
  const [alice, bob] = await world.agents('alice', 'bob')
  const { room, channels } = await world.channel([alice, bob])
  await assert.rejects(channels[0]!.leave(), code('not_allowed'))
  await goOn(...channels)
  const connecting = event(alice, 'connected')
  world.relay.cut(alice.agentId)
  // Also while there is no session.
  await assert.rejects(channels[0]!.leave(), code('not_allowed'))
  await connecting
  await goOn(...channels)
  await world.agree(room, channels, [alice.agentId, bob.agentId])
  assert.deepEqual(world.relay.requests(alice.agentId, 'leave'), [])
  assert.equal(world.stores.get('alice')!.load().channels[0]!.record.state, 'joined')
})

test('a Leave is refused in the next session: the agent is still a member and continues', async (t) => {
  const world = LyingSystem.start(t)
  const [alice, bob] = await world.agents('alice', 'bob')
  const { channels } = await world.channel([alice, bob])
  const asked = (): number => world.relay.requests(bob.agentId, 'leave').length
  world.relay.answer = (_agent, { case: name }, honest) => {
    if (name !== 'leave') return honest()
    return asked() === 1 ? undefined : answering({ case: 'error', value: { code: 'not_allowed' } })
  }
  const leaving = channels[1]!.leave()
  leaving.catch(() => {})
  await world.relay.until(() => asked() === 1)
  world.relay.cut(bob.agentId)
  await channels[0]!.send('meanwhile')
  await assert.rejects(leaving, code('not_allowed'))
  assert.deepEqual(await take(channels[1]!, 1), ['meanwhile'])
  await goOn(...channels)
})

test('a relay that holds no KeyPackage after every upload gets new ones only at intervals', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.agent('alice')
  const uploads = (): number => world.relay.requests(alice.agentId, 'uploadKeyPackage').length
  await world.relay.until(() => uploads() === 1)
  world.relay.answer = (_agent, asked, honest) =>
    asked.case === 'uploadKeyPackage' ? answering({ case: 'uploadKeyPackage', value: { held: 0 } }) : honest()
  world.relay.push(alice.agentId, answering({ case: 'keyPackagesLow', value: { held: 0 } }))
  await world.relay.until(() => uploads() === 2)
  // In the time in which ten more lots could be made.
  for (let n = 0; n < 10 * POOLED; n++) {
    await alice.generateKeyPackage()
    await setImmediate()
  }
  assert.equal(uploads(), 2)
  const pooled = world.stores
    .get('alice')!
    .load()
    .keyPackages.filter((record) => record.pooled)
  assert.equal(pooled.length, 2 * POOLED)
})

test('adding a current member again is refused, and it stays a member', async (t) => {
  const world = LyingSystem.start(t)
  const [alice, bob] = await world.agents('alice', 'bob')
  const { room, channels } = await world.channel([alice, bob])
  await world.agree(room, channels, [alice.agentId, bob.agentId])
  const entries = room.log.length
  const keyPackage = await bob.generateKeyPackage()
  await assert.rejects(channels[0]!.addMember(keyPackage), code('invalid_request', /already/))
  await assert.rejects(channels[0]!.addMember(bob.agentId), code('invalid_request', /already/))
  assert.equal(room.log.length, entries)
  assert.equal(channels[0]!.members().length, 2)
  await goOn(...channels)
  // One that has left comes back.
  await channels[1]!.leave()
  await goOn(channels[0]!, await bob.joinChannel(NAME, await channels[0]!.addMember(await bob.generateKeyPackage())))
})

test('a joiner that keeps saying hello is greeted once more, then at intervals', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.manager('alice')
  const channel = await alice.create(NAME)
  const bob = await world.agent('bob')
  const token = await alice.invite(NAME)
  const joined = await bob.joinWithToken(NAME, token, 20)
  const { sender } = bob.membershipOf(parseChannelName(NAME))
  const room = world.relay.room(joined.id)
  const { nonce } = world.stores.get('alice')!.load().joiners[0]!
  const greetings = (): number =>
    world.relay.requests(alice.client.agentId, 'sendMessage').filter(({ control }) => control).length
  /** Says hello so often, and waits until alice has heard it and has answered what she answers. */
  const hello = async (times: number): Promise<void> => {
    for (let n = 0; n < times; n++) await sender.send('hello', nonce)
    await world.relay.read(room, alice.client.agentId, bob.agentId)
    await channel.send('heard')
    assert.deepEqual(await take(joined, 1), ['heard'])
  }
  await hello(0)
  const first = greetings()
  for (let round = 0; round < 3; round++) await hello(20)
  assert.ok(greetings() <= first + 1, `${greetings() - first} more greetings`)
  await goOn(channel, joined)
})
