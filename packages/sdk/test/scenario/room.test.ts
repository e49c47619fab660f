/** A member that is away while others talk: it gets everything as long as there is room, and the sender hears when not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { code, event, NAME, take, TestSystem } from '../support/test-system.ts'

test('a member that was offline gets all messages that fit; before storage runs out, the sender learns who lags', async (t) => {
  // A thousandth of the day that the free plan holds: 86 messages of a sender, with three quarters of the room.
  const world = await TestSystem.start(t, 'grpc', { settings: { retention: { channelEntries: 122 } } })
  const [alice, bob, carol] = [await world.agent('alice'), await world.agent('bob'), await world.agent('carol')]
  const [a, b, c] = await world.channel(alice, [bob, carol])
  await c!.catchUp()
  await carol.close()
  const lagging = event(alice, 'lagging')
  const words = Array.from({ length: 86 }, (_, n) => `while away ${n}`)
  for (const each of words) await a!.send(each)
  const { channel, members } = await lagging
  assert.equal(channel, NAME)
  assert.ok(members.some(({ agent, waiting }) => agent === carol.agentId && waiting > 40))
  assert.deepEqual(await take(b!, 86), words)
  const again = await world.agent('carol')
  assert.deepEqual(await take(again.channel(NAME), 86), words)
})

test('the owner that was offline while a guest flooded the channel comes back and removes it', async (t) => {
  const world = await TestSystem.start(t, 'grpc', { settings: { retention: { channelEntries: 40 } } })
  const [alice, bob] = [await world.manager('alice'), await world.manager('bob')]
  const mallory = await world.manager('mallory', { account: null })
  await alice.create(NAME)
  // Invites of one use: the owner vouches for all three, so one that is offline does not keep messages.
  const honest = await bob.joinWithToken(NAME, await alice.invite(NAME))
  const inside = await mallory.joinWithToken(NAME, await alice.invite(NAME))
  await alice.client.channel(NAME).catchUp()
  await alice.close()

  await inside.rotate()
  const flood = async (): Promise<void> => {
    for (let at = 0; at < 100; at++) {
      await inside.send(`flood ${at}`)
      await take(honest, 1)
    }
  }
  await assert.rejects(flood(), code('queue_full'))

  const again = await world.manager('alice')
  const owner = again.client.channel(NAME)
  await owner.removeMember(mallory.client.agentId)
  await owner.send('I am back')
  assert.deepEqual(await take(honest, 1), ['I am back'])
})
