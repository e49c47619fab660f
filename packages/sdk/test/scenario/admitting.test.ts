/** Joining while the owner is away: a member admits, and the owner confirms when it returns. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeApi } from '@static/testkit/relay/api'
import { code, event, NAME, take, TestSystem, waysFor } from '../support/test-system.ts'

for (const way of waysFor('grpc')) {
  test(`${way}: a guest joins while the owner is off, and the owner confirms it`, async (t) => {
    const world = await TestSystem.start(t, way)
    const owner = await world.manager('owner')
    const member = await world.manager('member', { chance: () => 0 })
    await owner.create(NAME)
    const first = await owner.invite(NAME)
    const channel = await member.joinWithToken(NAME, first)
    assert.equal(channel.confirmed, true)
    const token = await owner.invite(NAME, { admit: 'members', maxUses: 2 })
    await channel.catchUp()
    await owner.close()

    const guest = await world.manager('guest', { account: null })
    const joined = await guest.joinWithToken(NAME, token)
    assert.equal(joined.confirmed, false)
    await joined.send('hello from the guest')
    assert.deepEqual(await take(channel, 1), ['hello from the guest'])

    const confirmed = event(guest.client, 'confirmed')
    const back = await world.manager('owner')
    await confirmed
    assert.equal(joined.confirmed, true)
    assert.deepEqual(
      back.invites(NAME).map(({ admit, uses, maxUses }) => ({ admit, uses, maxUses })),
      [
        { admit: 'owner', uses: 1, maxUses: 1 },
        { admit: 'members', uses: 1, maxUses: 2 },
      ],
    )
  })
}

test('all are away: the joiner asks and leaves, a member adds it, the invite expires, and the joiner is in when it returns', async (t) => {
  let now = Date.now()
  const clock = { now: () => now }
  const world = await TestSystem.start(t, 'grpc', { ...clock, api: new FakeApi(clock.now) })
  const owner = await world.manager('owner', clock)
  let member = await world.manager('member', clock)
  await owner.create(NAME)
  await member.joinWithToken(NAME, await owner.invite(NAME))
  const token = await owner.invite(NAME, { admit: 'members', ttl: 86_400 })
  await member.client.channel(NAME).catchUp()
  await Promise.all([owner.close(), member.close()])

  let guest = await world.manager('guest', { ...clock, account: null })
  await assert.rejects(guest.joinWithToken(NAME, token, 0.2), code('join_timeout', /No member of the channel answered/))
  await guest.close()
  now += 86_000_000
  member = await world.manager('member', { ...clock, chance: () => 0 })
  await event(member.client, 'admitted')
  now += 86_400_000
  guest = await world.manager('guest', { ...clock, account: null })
  const joined = await guest.joinWithToken(NAME, token, 20)
  assert.equal(joined.members().length, 3)
  assert.equal(joined.confirmed, false)
})

test('invites that members may use: what is refused, what a removal ends, and what a newcomer may do', async (t) => {
  const world = await TestSystem.start(t, 'grpc', { settings: { rates: { invitesPerMinute: 1000 } } })
  const owner = await world.manager('owner')
  const member = await world.manager('member', { chance: () => 0 })
  const second = await world.manager('second', { chance: () => 0 })
  await owner.create(NAME)
  const bad = 'anyone' as 'members'
  await assert.rejects(owner.invite(NAME, { admit: bad }), code('invalid_request', /`admit` is "anyone"/))
  await assert.rejects(owner.invite(NAME, { admit: 'members', maxUses: 251 }), code('invalid_request', /at most 250/))
  assert.deepEqual(owner.invites(NAME), [])

  await member.joinWithToken(NAME, await owner.invite(NAME))
  await assert.rejects(member.invite(NAME, { admit: 'members' }), code('not_allowed'))
  const token = await owner.invite(NAME, { admit: 'members', maxUses: 3 })
  await member.client.channel(NAME).catchUp()
  await owner.close()
  // One that was admitted by a member admits the next: it has the list from who added it.
  const admitted = await second.joinWithToken(NAME, token)
  await admitted.catchUp()
  await member.close()
  const third = await world.manager('third', { account: null })
  assert.equal((await third.joinWithToken(NAME, token)).members().length, 4)

  const back = await world.manager('owner')
  const own = back.client.channel(NAME)
  await own.catchUp()
  assert.deepEqual(
    back.invites(NAME).map(({ admit, state, uses }) => `${admit} ${state} ${uses}`),
    ['owner used_up 1', 'members open 2'],
  )
  await own.removeMember(third.client.agentId)
  assert.equal(back.invites(NAME).find(({ admit }) => admit === 'members')?.state, 'revoked')
  await admitted.catchUp()
  const late = await world.manager('late', { account: null })
  await assert.rejects(late.joinWithToken(NAME, token, 20), code('invite_revoked'))
  assert.equal(own.members().length, 3)

  for (let open = 0; open < 16; open++) await back.invite(NAME, { admit: 'members' })
  await assert.rejects(back.invite(NAME, { admit: 'members' }), code('invalid_request', /has 16 open invites/))
  await back.invite(NAME)
})
