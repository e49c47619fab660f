/** For whom the owner vouches: by its own acts, never by what its agent does by itself. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import type { Channel } from '../../src/public/channel.ts'
import { code, event, NAME, take, TestSystem, waysFor } from '../support/test-system.ts'

/** No test here makes more commits. */
const MOST_SLOTS = 40

/** The agents that the owner's agent says it has vouched for. */
const vouchedIn = (channel: Channel): string[] =>
  channel
    .members()
    .filter(({ vouched }) => vouched)
    .map(({ agentId }) => agentId)
    .toSorted()

/** As the relay sees it: whether an agent has a vote on the commit of a slot. */
async function hasVote(channel: Channel, slot: number): Promise<boolean> {
  try {
    await channel.rejectCommit(slot)
    return true
  } catch (error) {
    assert.ok(error instanceof StaticError && ['not_allowed', 'not_found'].includes(error.code), String(error))
    return false
  }
}

/** The slot of the last commit, found by an agent that has no vote on any. */
async function lastSlot(channel: Channel): Promise<number> {
  let last = -1
  for (let slot = 0; slot < MOST_SLOTS; slot++) {
    await channel.rejectCommit(slot).catch((error: unknown) => {
      if (error instanceof StaticError && error.code === 'not_allowed') last = slot
    })
  }
  return last
}

for (const way of waysFor('grpc')) {
  test(`a guest's agents cannot reject a member's commit after the owner's agent has removed leavers, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way, {
      settings: { rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 } },
    })
    const [alice, bob] = [await world.manager('alice', { chance: () => 0 }), await world.manager('bob')]
    const mallory = await world.manager('mallory', { account: null, chance: () => 0.99 })
    const owner = await alice.create(NAME)
    const honest = await bob.joinWithToken(NAME, await alice.invite(NAME))
    const inside = await mallory.joinWithToken(NAME, await alice.invite(NAME))
    const sybils: Channel[] = []
    const own = await Promise.all(
      Array.from({ length: 7 }, (_, at) => world.agent(`sybil ${at}`, { account: null, chance: () => 0.99 })),
    )
    const welcomes = await inside.addMembers(await Promise.all(own.map((agent) => agent.generateKeyPackage())))
    for (const [at, agent] of own.entries()) sybils.push(await agent.joinChannel(NAME, welcomes[at]!))
    for (const channel of sybils.slice(0, 3)) await channel.leave()
    while (owner.members().length > 7) await event(alice.client, 'members_changed')

    const carol = await world.agent('carol')
    const welcome = await honest.addMember(await carol.generateKeyPackage())
    for (const channel of sybils.slice(3)) {
      for (let slot = 0; slot < MOST_SLOTS; slot++) assert.equal(await hasVote(channel, slot), false)
    }
    // Bob is not barred, and carol is still in.
    const joined = await carol.joinChannel(NAME, welcome)
    await honest.rotate()
    await honest.send('on')
    assert.deepEqual(await take(joined, 1), ['on'])
    assert.deepEqual(vouchedIn(owner), [alice, bob, mallory].map(({ client }) => client.agentId).toSorted())
  })
}

test('the owner vouches for those it adds, admits with an invite of one use or names, and for no one else', async (t) => {
  const world = await TestSystem.start(t, 'grpc', {
    settings: { rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 } },
  })
  const alice = await world.manager('alice')
  const owner = await alice.create(NAME)
  const [added, single, many, byMembers] = await Promise.all(
    ['added', 'single', 'many', 'byMembers'].map((name) => world.manager(name)),
  )
  const joined = await added!.client.joinChannel(NAME, await owner.addMember(await added!.client.generateKeyPackage()))
  await single!.joinWithToken(NAME, await alice.invite(NAME))
  await many!.joinWithToken(NAME, await alice.invite(NAME, { maxUses: 2 }))
  await byMembers!.joinWithToken(NAME, await alice.invite(NAME, { admit: 'members' }))
  const friend = await world.agent('friend')
  await friend.joinChannel(NAME, await joined.addMember(await friend.generateKeyPackage()))
  await owner.catchUp()

  const idOf = ({ client }: { client: { agentId: string } }): string => client.agentId
  const first = [alice, added!, single!].map(idOf).toSorted()
  assert.deepEqual(vouchedIn(owner), first)
  assert.deepEqual(
    joined.members().map(({ vouched }) => vouched),
    Array.from({ length: 6 }, () => undefined),
  )
  await assert.rejects(joined.vouch(friend.agentId), code('not_allowed'))
  await assert.rejects(owner.vouch('0'.repeat(64)), code('not_found'))
  await assert.rejects(owner.vouch('friend'), code('invalid_request'))
  await owner.vouch(friend.agentId)
  const all = [...first, friend.agentId].toSorted()
  assert.deepEqual(vouchedIn(owner), all)

  // The relay agrees, and a reset of the roster changes nothing.
  const voters = async (): Promise<string[]> => {
    await joined.rotate()
    const slot = await lastSlot(many!.client.channel(NAME))
    const asked = [single!.client, many!.client, byMembers!.client, friend]
    const found: string[] = []
    for (const client of asked) if (await hasVote(client.channel(NAME), slot)) found.push(client.agentId)
    return found.toSorted()
  }
  const expected = [single!.client.agentId, friend.agentId].toSorted()
  assert.deepEqual(await voters(), expected)
  await owner.resetRoster()
  assert.deepEqual(await voters(), expected)

  // It is on disk, and ends with the membership.
  await alice.close()
  const back = (await world.manager('alice')).client.channel(NAME)
  assert.deepEqual(vouchedIn(back), all)
  await back.removeMember(friend.agentId)
  await joined.catchUp()
  await joined.addMember(await friend.generateKeyPackage())
  await back.catchUp()
  assert.deepEqual(vouchedIn(back), first)
})
