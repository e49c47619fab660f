import assert from 'node:assert/strict'
import { test } from 'node:test'
import { goOn, LyingSystem, makeCanary } from '../support/lying-system.ts'
import { event, NAME, take } from '../support/test-system.ts'

test('a lying relay that does not lie behaves like a relay', async (t) => {
  const world = LyingSystem.start(t)
  const clients = [await world.agent('alice', { chance: () => 0 }), ...(await world.agents('bob', 'carol'))]
  const { room, channels } = await world.channel(clients)
  const ids = clients.map(({ agentId }) => agentId)
  const canary = makeCanary()
  await goOn(...channels)
  await channels[1]!.rotate()
  await channels[0]!.send(canary)
  assert.deepEqual([await take(channels[1]!, 1), await take(channels[2]!, 1)], [[canary], [canary]])
  world.relay.cut(ids[1]!)
  await goOn(...channels)
  await world.agree(room, channels, ids)

  const changed = event(clients[1]!, 'members_changed')
  await channels[2]!.leave()
  assert.deepEqual((await changed).removed, [ids[2]])
  await goOn(channels[0]!, channels[1]!)
  await world.agree(room, channels.slice(0, 2), ids.slice(0, 2))
  assert.equal(world.relay.sawPlaintext(canary), false)
  // The control: a channel's name is no secret here.
  assert.equal(world.relay.sawPlaintext(NAME), true)
})

test('a lying relay that does not lie carries offers and invites', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.manager('alice')
  const bob = await world.manager('bob', { guest: true })
  const carol = await world.agent('carol')
  const channel = await alice.create(NAME)
  const joined = await bob.joinWithToken(NAME, await alice.invite(NAME))
  await goOn(channel, joined)
  const offered = carol.joins().next()
  await channel.addMember(carol.agentId)
  const { value: offer } = await offered
  const accepted = await offer!.accept()
  await alice.send(NAME, 'hello carol')
  assert.deepEqual(await take(accepted, 1), ['hello carol'])
})
