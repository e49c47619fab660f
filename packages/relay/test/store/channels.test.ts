import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  account,
  accepted,
  agentId,
  assertChain,
  forEachEngine,
  guest,
  hex16,
  member,
  refused,
  text,
} from './channel-fixture.ts'

forEachEngine((open) => {
  test('a channel starts with its creator as the only member, at the start of its chain', async (t) => {
    const world = await open(t)
    assert.deepEqual(await world.create('alice'), { welcome: text('founding'), guestLimit: 1000 })
    const standing = await world.stand('alice')
    assert.deepEqual(
      { ...standing, cursor: undefined },
      {
        channel: world.channel,
        name: 'acme/support/routing',
        owner: agentId('alice'),
        head: 0,
        lastIndex: 0,
        lastCounter: 0,
        cursor: undefined,
        addedIndex: 0,
        welcome: false,
        barred: false,
        guestLimit: 1000,
        payer: account('alice'),
        removed: false,
      },
    )
    const { hash, ...place } = standing.cursor
    assert.deepEqual(place, { index: 0, slot: 0 })
    assert.deepEqual(Buffer.from(hash), Buffer.from(assertChain(world.channel, []).hash))
    assert.deepEqual(world.told(), [])
  })

  test('a repeated request gets the first answer, even if the channel has changed since', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.say('bob'))
    const again = await world.create('alice', { welcome: text('another'), guestLimit: 5 })
    assert.deepEqual(again, { welcome: text('founding'), guestLimit: 1000 })
    assert.equal((await world.stand('alice')).lastIndex, 2)
  })

  test('a channel id belongs to one channel, for every caller', async (t) => {
    const world = await open(t)
    await world.found('alice')
    refused(await world.create('bob', { name: 'acme/other/one' }), 'channel_exists')
    refused(await world.create('alice', { name: 'acme/other/one' }), 'channel_exists')
    refused(
      await world.create('alice', { actor: { ...member('alice'), account: account('alice', 'test') } }),
      'channel_exists',
    )
    refused(await world.create('bob', { actor: { ...member('bob'), account: account('alice') } }), 'channel_exists')
  })

  test('a name is unique within an account and mode', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const other = hex16('other')
    const { message } = refused(await world.create('alice', { channel: other }), 'channel_exists')
    assert.match(String(message), /^Channel acme\/\S+ already exists in this account\./)
    assert.ok('welcome' in (await world.create('bob', { channel: other })))
    const test = { ...member('alice'), account: account('alice', 'test') }
    assert.ok('welcome' in (await world.create('alice', { channel: hex16('third'), actor: test })))
  })

  test('the number of channels per account and mode is limited', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const second = { channel: hex16('second'), name: 'acme/support/second', maxChannels: 1 }
    const { message } = refused(await world.create('alice', second), 'not_allowed')
    assert.match(String(message), /limit of 1 channels/)
    assert.ok('welcome' in (await world.create('alice', { ...second, maxChannels: 2 })))
    // A repetition is not one more.
    assert.ok('welcome' in (await world.create('alice', { ...second, maxChannels: 1 })))
  })

  test('a deleted channel is gone with everything in it, its members are notified, and its name is free', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const id = hex16('invite')
    const invite = {
      id,
      channel: world.channel,
      admissionKey: text('k'),
      expiresAt: world.now + 1000,
      maxUses: 1,
      members: false,
    }
    await world.run('registerInvite', { actor: member('alice'), invite, maxInvites: 10, now: world.now })
    const sent = world.message('bob')
    accepted(await world.run('append', sent))
    world.told()

    assert.deepEqual(
      await world.run('delete', { account: account('alice'), channel: world.channel, name: undefined }),
      { done: true },
    )
    const members = [agentId('alice'), agentId('bob')]
    assert.deepEqual(world.told(), [{ type: 'deleted', channel: world.channel, name: 'acme/support/routing', members }])
    assert.deepEqual(await world.standing('bob'), { channel: world.channel, refused: 'not_found' })
    refused(await world.run('append', sent), 'not_found')
    assert.deepEqual(await world.run('invite', { id }), { invite: undefined })
    assert.deepEqual(await world.resume('bob'), { standings: [], more: false, member: false })
    assert.deepEqual(await world.read('bob', 0), { entries: [], gap: undefined, last: 0, ended: true, from: undefined })

    await world.create('alice')
    assert.equal((await world.stand('alice')).lastIndex, 0)
    assert.deepEqual((await world.read('alice', 0)).entries, [])
    world.recount('alice')
    assert.equal(accepted(await world.say('alice', { slot: 0, messageId: sent.messageId })), 1)
  })

  test('a channel can be deleted by its name, only by the account that owns it', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const byName = { channel: undefined, name: 'acme/support/routing' }
    refused(await world.run('delete', { account: account('bob'), ...byName }), 'not_found')
    refused(
      await world.run('delete', { account: account('bob'), channel: world.channel, name: undefined }),
      'not_found',
    )
    refused(
      await world.run('delete', { account: account('alice', 'test'), channel: world.channel, name: undefined }),
      'not_found',
    )
    refused(
      await world.run('delete', { account: account('alice'), channel: hex16('none'), name: undefined }),
      'not_found',
    )
    refused(await world.run('delete', { account: account('alice'), channel: undefined, name: undefined }), 'not_found')
    const misnamed = { channel: world.channel, name: 'acme/support/other' }
    refused(await world.run('delete', { account: account('alice'), ...misnamed }), 'not_found')
    assert.deepEqual(await world.run('delete', { account: account('alice'), ...byName }), { done: true })
  })

  test('a KeyPackage is handed out only to a member with an account of the right mode', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    const check = (actor: Parameters<typeof world.reject>[0], channel = world.channel): Promise<object> =>
      world.run('check', { actor, channel })
    assert.deepEqual(await check(member('bob')), { done: true })
    refused(await check(member('bob'), hex16('none')), 'not_found')
    refused(await check(member('eve')), 'not_found')
    refused(await check({ agent: agentId('carol'), account: account('carol', 'test') }), 'mode_mismatch')
    refused(await check(guest('carol')), 'api_key_required')
    accepted(await world.commit('alice', { removes: ['carol'] }))
    refused(await check(member('carol')), 'removed')
  })
})
