/** What an agent does when the relay's allowance of commits is used up. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { code, NAME, take, TestSystem, waysFor } from '../support/test-system.ts'

const SETTINGS = {
  rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 },
  retention: { freeCommitBytes: 20_000, memberAddsPerHour: 1 },
}

const HOUR = 3_600_000
/** The relay counts by the hour: here one has always just begun. */
const begun = Date.now() % HOUR
const now = (): number => Date.now() - begun

for (const way of waysFor('quic')) {
  test(`a member whose commits are deferred for long is notified, and can still send, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way, { settings: SETTINGS, now })
    const [alice, bob, carol] = [await world.agent('alice'), await world.agent('bob'), await world.agent('carol')]
    const owner = await alice.createChannel(NAME)
    const joined = await bob.joinChannel(NAME, await owner.addMember(await bob.generateKeyPackage()))
    await joined.addMember(await carol.generateKeyPackage())
    const dave = await world.agent('dave')
    await assert.rejects(joined.addMember(await dave.generateKeyPackage()), code('rate_limited'))
    const rotations = async (): Promise<void> => {
      for (let at = 0; at < 100; at++) await joined.rotate()
    }
    await assert.rejects(rotations(), code('rate_limited'))
    await joined.send('still talking')
    assert.deepEqual(await take(owner, 1), ['still talking'])
    // The owner pays for more.
    for (let at = 0; at < 30; at++) await owner.rotate()
    await owner.addMember(await dave.generateKeyPackage())
    await owner.send('so is the owner')
    assert.deepEqual(await take(joined, 1), ['so is the owner'])
  })
}

test('an owner without quota leaves a join request pending, and the invite works once there is quota again', async (t) => {
  const settings = { ...SETTINGS, retention: { freeCommitBytes: 20_000 }, leaseUnits: 1 }
  const world = await TestSystem.start(t, 'grpc', { settings, now })
  const owner = await world.manager('owner')
  // An agent with invites to more than four channels asks for requests every second, not every 25.
  for (const other of ['acme/other/one', 'acme/other/two', 'acme/other/three', 'acme/other/four']) {
    await owner.create(other)
    await owner.invite(other)
  }
  const channel = await owner.create(NAME)
  const token = await owner.invite(NAME)
  const { left } = world.relay.api
  const rotations = async (): Promise<void> => {
    for (let at = 0; at < 100; at++) {
      // Nothing is left but what the relay holds already.
      for (const key of left.keys()) left.set(key, 0)
      await channel.rotate()
    }
  }
  await assert.rejects(rotations(), code('quota_exceeded'))
  const guest = await world.manager('guest')
  await assert.rejects(guest.joinWithToken(NAME, token, 2), code('join_timeout'))
  for (const key of left.keys()) left.set(key, 1000)
  const joined = await guest.joinWithToken(NAME, token, 60)
  await channel.send('welcome')
  assert.deepEqual(await take(joined, 1), ['welcome'])
})
