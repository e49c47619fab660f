/** Who owns a channel: the standby that the owner names, the take-over, and what happens when it is rejected. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  account,
  accepted,
  agentId,
  type ChannelFixture,
  forEachEngine,
  guest,
  hex16,
  member,
  notice,
  type Open,
  refused,
  text,
} from './channel-fixture.ts'

/** Alice's channel; the others are vouched for and have acted with their accounts. */
async function scene(open: Open, t: Parameters<Open>[0], retention = {}): Promise<ChannelFixture> {
  const f = await open(t, retention)
  await f.found('alice', 'bob', 'carol', 'dave')
  for (const name of ['bob', 'carol', 'dave']) accepted(await f.say(name))
  return f
}

async function withStandby(open: Open, t: Parameters<Open>[0], retention = {}): Promise<ChannelFixture> {
  const f = await scene(open, t, retention)
  accepted(await f.commit('alice', { owner: 'alice', standby: 'bob' }))
  return f
}

async function ownerOf(f: ChannelFixture): Promise<string> {
  const { owner } = await f.stand('carol')
  return ['alice', 'bob', 'carol', 'dave'].find((name) => agentId(name) === owner) ?? owner
}

/** How many channels an account has. */
async function owned(f: ChannelFixture, name: string): Promise<number> {
  const bounds = { skip: 0, maxChannels: 9, maxMembersPerChannel: 9, maxMembers: 9 }
  return (await f.run('owned', { account: account(name).id, ...bounds })).total
}

forEachEngine((open) => {
  test('the standby takes the channel over: with its account, name and bytes', async (t) => {
    const f = await withStandby(open, t)
    assert.equal(await ownerOf(f), 'alice')
    f.told()
    accepted(await f.commit('bob', { owner: 'bob' }))
    assert.deepEqual(
      f.told().map(({ type }) => type),
      ['ownerChanged', 'appended'],
    )
    assert.equal(await ownerOf(f), 'bob')
    assert.deepEqual([await owned(f, 'alice'), await owned(f, 'bob')], [0, 1])
    assert.deepEqual((await f.stand('carol')).payer, account('bob'))
    // The name is free for Alice and taken for Bob.
    const fields = { channel: hex16('two') }
    refused(await f.create('bob', fields), 'channel_exists')
    assert.ok('welcome' in (await f.create('alice', fields)))
    // Only Bob removes members, and Alice is one of them.
    refused(await f.commit('alice', { removes: ['carol'] }), 'not_allowed')
    accepted(await f.commit('bob', { removes: ['alice'] }))
    refused(await f.run('delete', { account: account('alice'), channel: f.channel, name: undefined }), 'not_found')
    assert.deepEqual(await f.run('delete', { account: account('bob'), channel: f.channel, name: undefined }), {
      done: true,
    })
  })

  test('no one but the standby takes over, and only once', async (t) => {
    const f = await withStandby(open, t)
    refused(await f.commit('carol', { owner: 'carol' }), 'not_allowed')
    refused(await f.commit('bob', { owner: 'carol' }), 'not_allowed')
    refused(await f.commit('alice', { owner: 'bob' }), 'not_allowed')
    refused(await f.commit('bob', { owner: 'bob', standby: 'carol' }), 'invalid_request')
    refused(await f.commit('bob', { owner: 'bob', adds: ['eve'] }), 'invalid_request')
    refused(await f.commit('carol', { owner: 'alice', standby: 'carol' }), 'not_allowed')
    accepted(await f.commit('bob', { owner: 'bob' }))
    refused(await f.commit('alice', { owner: 'alice' }), 'not_allowed')
    refused(await f.commit('bob', { owner: 'carol' }), 'not_allowed')
  })

  test('a take-over at the same time as a commit of the owner: the second one is refused', async (t) => {
    const f = await withStandby(open, t)
    const slot = f.head
    accepted(await f.commit('alice', { owner: 'alice' }))
    assert.equal(refused(await f.commit('bob', { owner: 'bob', slot }), 'epoch_mismatch')['head'], slot + 1)
    refused(await f.commit('bob', { owner: 'bob' }), 'not_allowed')
  })

  test('a guest, an account of the other mode, and an account without room or with that name do not take over', async (t) => {
    const f = await withStandby(open, t)
    refused(await f.commit('bob', { owner: 'bob', actor: guest('bob') }), 'api_key_required')
    const test = { agent: agentId('bob'), account: account('bob', 'test') }
    refused(await f.commit('bob', { owner: 'bob', actor: test }), 'mode_mismatch')
    assert.ok('welcome' in (await f.create('bob', { channel: hex16('two') })))
    refused(await f.commit('bob', { owner: 'bob' }), 'channel_exists')
    await f.run('delete', { account: account('bob'), channel: hex16('two'), name: undefined })
    assert.ok('welcome' in (await f.create('bob', { channel: hex16('two'), name: 'acme/support/other' })))
    refused(await f.commit('bob', { owner: 'bob', maxChannels: 1 }), 'not_allowed')
    const limits = { account: account('bob'), channelBytes: undefined, at: f.now }
    await f.run('allot', { ...limits, accountBytes: 2000 })
    refused(await f.commit('bob', { owner: 'bob', maxChannels: 2 }), 'queue_full')
    await f.run('allot', { ...limits, accountBytes: 1_000_000, at: f.now + 1 })
    accepted(await f.commit('bob', { owner: 'bob', maxChannels: 2 }))
  })

  test('an agent of the same account takes over without needing room or a free name', async (t) => {
    const f = await scene(open, t)
    const actor = { agent: agentId('erin'), account: account('alice') }
    accepted(await f.commit('alice', { adds: ['erin'], vouches: ['erin'] }))
    accepted(await f.say('erin', { actor }))
    accepted(await f.commit('alice', { owner: 'alice', standby: 'erin' }))
    accepted(await f.commit('erin', { actor, owner: 'erin', maxChannels: 1 }))
    assert.equal((await f.stand('carol')).owner, agentId('erin'))
    assert.equal(await owned(f, 'alice'), 1)
  })

  test('the standby is a member that the owner has vouched for, and that has an account', async (t) => {
    const f = await scene(open, t)
    refused(await f.commit('alice', { owner: 'alice', standby: 'eve' }), 'invalid_request')
    refused(await f.commit('alice', { owner: 'alice', standby: 'alice' }), 'invalid_request')
    accepted(await f.commit('alice', { adds: ['erin', 'frank'], vouches: ['frank'] }))
    accepted(await f.say('erin'))
    refused(await f.commit('alice', { owner: 'alice', standby: 'erin' }), 'not_allowed')
    accepted(await f.say('frank', { actor: guest('frank') }))
    refused(await f.commit('alice', { owner: 'alice', standby: 'frank' }), 'not_allowed')
    accepted(await f.say('frank'))
    accepted(await f.commit('alice', { owner: 'alice', standby: 'frank' }))
  })

  test('a standby that leaves, or is removed, loses its standing, whatever the commit declares', async (t) => {
    for (const byNotice of [true, false]) {
      const f = await withStandby(open, t)
      if (byNotice) {
        const slot = f.head
        accepted(await f.leave('bob'))
        accepted(await f.commit('carol', { removes: ['bob'], notices: [notice('bob', slot)], owner: 'alice' }))
      } else accepted(await f.commit('alice', { removes: ['bob'] }))
      accepted(await f.commit('alice', { adds: ['bob'], vouches: ['bob'] }))
      f.recount('bob')
      refused(await f.commit('bob', { owner: 'bob' }), 'not_allowed')
    }
  })

  test('a standby that left and was added again unvouched is not restored with the rejection of its removal', async (t) => {
    const f = await withStandby(open, t)
    const slot = f.head
    accepted(await f.leave('bob'))
    accepted(await f.commit('carol', { removes: ['bob'], notices: [notice('bob', slot)], owner: 'alice' }))
    accepted(await f.commit('carol', { adds: ['bob'] }))
    f.recount('bob')
    await f.reject(member('carol'), slot)
    assert.deepEqual(await f.reject(member('dave'), slot), { rejected: true, votes: 2, needed: 2 })
    refused(await f.commit('bob', { owner: 'bob' }), 'not_allowed')
    assert.equal(await ownerOf(f), 'alice')
  })

  test('a member that clears the standby without removing it changes nothing', async (t) => {
    const f = await withStandby(open, t)
    refused(await f.commit('carol', { owner: 'alice' }), 'not_allowed')
    const slot = f.head
    accepted(await f.leave('dave'))
    accepted(await f.commit('carol', { removes: ['dave'], notices: [notice('dave', slot)], owner: 'alice' }))
    accepted(await f.commit('bob', { owner: 'bob' }))
  })

  test('a take-over revokes all invites and refuses waiting joiners', async (t) => {
    const f = await withStandby(open, t)
    assert.deepEqual(await f.invite('mine'), { done: true })
    const join = {
      invite: hex16('mine'),
      channel: f.channel,
      owner: agentId('alice'),
      agent: agentId('gus'),
      box: text('box'),
      until: f.now + 1000,
    }
    await f.run('requestJoin', { join, maxPerInvite: 9, maxPerOwner: 9, maxBytes: 9999, now: f.now })
    f.told()
    accepted(await f.commit('bob', { owner: 'bob' }))
    assert.deepEqual(
      f.told().flatMap((event) => (event.type === 'joinAnswered' ? [event.code] : [])),
      ['invite_revoked'],
    )
    assert.deepEqual(await f.run('invite', { id: hex16('mine') }), { invite: undefined })
    refused(await f.invite('again'), 'not_allowed')
  })

  test('neither owner rejects a take-over alone; more than half do, and all is as before', async (t) => {
    const f = await withStandby(open, t)
    const slot = f.head
    accepted(await f.commit('bob', { owner: 'bob' }))
    assert.deepEqual(await f.reject(member('alice'), slot), { rejected: false, votes: 1, needed: 3 })
    assert.deepEqual(await f.reject(member('bob'), slot), { rejected: false, votes: 2, needed: 3 })
    // The new owner has named a standby of its own meanwhile.
    accepted(await f.commit('bob', { owner: 'bob', standby: 'dave' }))
    f.told()
    assert.deepEqual(await f.reject(member('carol'), slot), { rejected: true, votes: 3, needed: 3 })
    assert.ok(f.told().some(({ type }) => type === 'ownerChanged'))
    assert.equal(await ownerOf(f), 'alice')
    assert.deepEqual([await owned(f, 'alice'), await owned(f, 'bob')], [1, 0])
    // Bob is barred; once he is not, he is the standby as before, and Dave is not.
    refused(await f.commit('bob', { owner: 'bob' }), 'not_allowed')
    refused(await f.commit('dave', { owner: 'dave' }), 'not_allowed')
    await f.run('liftBar', { actor: member('alice'), channel: f.channel, agent: agentId('bob') })
    accepted(await f.commit('bob', { owner: 'bob' }))
  })

  test('a take-over is not undone while the former account has another channel of that name, nor after the next one', async (t) => {
    const f = await withStandby(open, t)
    const slot = f.head
    accepted(await f.commit('bob', { owner: 'bob' }))
    assert.ok('welcome' in (await f.create('alice', { channel: hex16('two') })))
    await f.reject(member('alice'), slot)
    await f.reject(member('carol'), slot)
    refused(await f.reject(member('dave'), slot), 'channel_exists')
    await f.run('delete', { account: account('alice'), channel: hex16('two'), name: undefined })
    accepted(await f.commit('bob', { owner: 'bob', standby: 'carol' }))
    accepted(await f.commit('carol', { owner: 'carol' }))
    refused(await f.reject(member('dave'), slot), 'not_allowed')
    assert.equal(await ownerOf(f), 'carol')
  })

  test('the owner rejects its own setting of a standby; the last one that stands counts', async (t) => {
    const f = await scene(open, t)
    accepted(await f.commit('alice', { owner: 'alice', standby: 'bob' }))
    const first = f.head
    accepted(await f.commit('alice', { owner: 'alice', standby: 'carol' }))
    accepted(await f.commit('alice', { owner: 'alice', standby: 'dave' }))
    refused(await f.reject(member('bob'), first), 'not_allowed')
    // Superseded: nothing changes now, but the next one returns to the standby before both.
    assert.ok('rejected' in (await f.reject(member('alice'), first)))
    refused(await f.commit('carol', { owner: 'carol' }), 'not_allowed')
    assert.ok('rejected' in (await f.reject(member('alice'), first + 1)))
    refused(await f.commit('dave', { owner: 'dave' }), 'not_allowed')
    accepted(await f.commit('bob', { owner: 'bob' }))
  })

  test('commits of the former owner cannot be voted on, and those of the new one from before can', async (t) => {
    const f = await withStandby(open, t)
    const [byAlice, byBob] = [f.head, f.head + 1]
    accepted(await f.commit('alice'))
    accepted(await f.commit('bob'))
    accepted(await f.commit('bob', { owner: 'bob' }))
    refused(await f.reject(member('carol'), byAlice), 'not_allowed')
    assert.deepEqual(await f.reject(member('carol'), byBob), { rejected: false, votes: 1, needed: 3 })
  })

  test('the new account pays for no more guests than the relay would give it, and the former one for as many as before', async (t) => {
    const f = await withStandby(open, t)
    const limit = async (): Promise<number> => (await f.stand('carol')).guestLimit
    const slot = f.head
    accepted(await f.commit('bob', { owner: 'bob', guestLimit: 2 }))
    assert.equal(await limit(), 2)
    accepted(await f.commit('bob', { adds: ['gus'] }))
    const paid = { actor: guest('gus'), paid: account('bob') }
    for (let sent = 0; sent < 2; sent++) accepted(await f.say('gus', paid))
    refused(await f.say('gus', paid), 'quota_exceeded')
    for (const voter of ['alice', 'carol', 'dave']) await f.reject(member(voter), slot)
    assert.deepEqual([await ownerOf(f), await limit()], ['alice', 1000])
    // A limit that the creator chose below the relay's stays, and so does that of an account that goes on paying.
    accepted(await f.commit('alice', { owner: 'alice', standby: 'carol' }))
    accepted(await f.commit('carol', { owner: 'carol', guestLimit: 5000 }))
    assert.equal(await limit(), 1000)
    const actor = { agent: agentId('erin'), account: account('carol') }
    accepted(await f.commit('carol', { adds: ['erin'], vouches: ['erin'] }))
    accepted(await f.say('erin', { actor }))
    accepted(await f.commit('carol', { owner: 'carol', standby: 'erin' }))
    accepted(await f.commit('erin', { actor, owner: 'erin', guestLimit: 1 }))
    assert.equal(await limit(), 1000)
  })

  test('an agent that is barred is not named as the standby until it may commit again', async (t) => {
    const f = await scene(open, t)
    const slot = f.head
    accepted(await f.commit('bob'))
    assert.ok('rejected' in (await f.reject(member('alice'), slot)))
    refused(await f.commit('alice', { owner: 'alice', standby: 'bob' }), 'not_allowed')
    await f.run('liftBar', { actor: member('alice'), channel: f.channel, agent: agentId('bob') })
    accepted(await f.commit('alice', { owner: 'alice', standby: 'bob' }))
  })

  test('a take-over is not undone once the former owner is no longer a member: no one could act as the owner', async (t) => {
    const f = await open(t)
    await f.found('alice', 'bob', 'carol', 'dave', 'erin')
    accepted(await f.say('bob'))
    accepted(await f.commit('alice', { owner: 'alice', standby: 'bob' }))
    const slot = f.head
    accepted(await f.commit('bob', { owner: 'bob' }))
    accepted(await f.commit('bob', { removes: ['alice'] }))
    await f.reject(member('carol'), slot)
    await f.reject(member('dave'), slot)
    refused(await f.reject(member('erin'), slot), 'not_allowed')
    accepted(await f.commit('carol', { adds: ['alice'] }))
    refused(await f.reject(member('erin'), slot), 'not_allowed')
    assert.equal(await ownerOf(f), 'bob')
    assert.deepEqual([await owned(f, 'alice'), await owned(f, 'bob')], [0, 1])
  })

  test('a reset of the roster changes neither owner nor standby, and vouches for the standby automatically', async (t) => {
    const f = await withStandby(open, t)
    assert.deepEqual(await f.reset('alice', ['alice', 'bob', 'carol'], ['carol']), { done: true })
    accepted(await f.commit('bob', { owner: 'bob' }))
    assert.equal(await ownerOf(f), 'bob')
  })

  for (const how of ['by a reset', 'with the commit that added it'] as const) {
    test(`a standby that leaves the roster ${how} is no longer one, even if it comes back and is vouched for`, async (t) => {
      const f = await scene(open, t)
      const slot = f.head
      accepted(await f.commit('alice', { adds: ['erin'], vouches: ['erin'] }))
      accepted(await f.say('erin'))
      accepted(await f.commit('alice', { owner: 'alice', standby: 'erin' }))
      const others = ['bob', 'carol', 'dave']
      if (how === 'by a reset') await f.reset('alice', ['alice', ...others], others)
      else assert.ok('rejected' in (await f.reject(member('alice'), slot)))
      assert.deepEqual(await f.roster('erin'), [])
      accepted(await f.commit('alice', { adds: ['erin'], vouches: ['erin'] }))
      refused(await f.commit('erin', { owner: 'erin' }), 'not_allowed')
      accepted(await f.commit('alice', { owner: 'alice', standby: 'erin' }))
      accepted(await f.commit('erin', { owner: 'erin' }))
    })
  }

  test('a full channel whose former account has no room can be taken over', async (t) => {
    const f = await withStandby(open, t)
    const limits = { channelBytes: 1000, accountBytes: 1000, at: f.now }
    await f.run('allot', { account: account('alice'), ...limits })
    refused(await f.say('carol'), 'queue_full')
    refused(await f.commit('carol'), 'queue_full')
    accepted(await f.commit('bob', { owner: 'bob' }))
    accepted(await f.say('carol'))
  })
})
