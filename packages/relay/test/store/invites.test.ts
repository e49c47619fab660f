import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StoreRequest } from '../../src/ports.ts'
import {
  DAY,
  HOUR,
  account,
  accepted,
  agentId,
  forEachEngine,
  hex16,
  member,
  refused,
  text,
  type ChannelFixture,
} from './channel-fixture.ts'

const register = (
  world: ChannelFixture,
  name: string,
  label: string,
  { maxInvites = 10, ...fields }: Partial<StoreRequest<'registerInvite'>['invite']> & { maxInvites?: number } = {},
): Promise<object> => {
  const invite = {
    id: hex16(label),
    channel: world.channel,
    admissionKey: text('admission'),
    expiresAt: world.now + HOUR,
    maxUses: 1,
    ...fields,
  }
  return world.run('registerInvite', { actor: member(name), invite, maxInvites, now: world.now })
}

forEachEngine((open) => {
  test('a member registers an invite, and can repeat the request', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    assert.deepEqual(await register(world, 'bob', 'one', { maxUses: 3 }), { done: true })
    const expected = {
      id: hex16('one'),
      channel: world.channel,
      agent: agentId('bob'),
      admissionKey: text('admission'),
      expiresAt: world.now + HOUR,
      maxUses: 3,
      uses: 0,
      revoked: false,
    }
    assert.deepEqual(await world.run('invite', { id: hex16('one') }), { invite: expected })
    // More uses, when some came to nothing; never fewer.
    assert.deepEqual(await register(world, 'bob', 'one', { maxUses: 9 }), { done: true })
    assert.deepEqual(await register(world, 'bob', 'one', { maxUses: 2 }), { done: true })
    assert.deepEqual(await world.run('invite', { id: hex16('one') }), { invite: { ...expected, maxUses: 9 } })
    refused(await register(world, 'alice', 'one'), 'invite_invalid')
    refused(await register(world, 'eve', 'two'), 'not_found')
    refused(await register(world, 'bob', 'two', { channel: hex16('none') }), 'not_found')
    const wrong = { agent: agentId('bob'), account: account('bob', 'test') }
    const invite = { ...expected, id: hex16('two') }
    refused(await world.run('registerInvite', { actor: wrong, invite, maxInvites: 9, now: world.now }), 'mode_mismatch')
    accepted(await world.commit('alice', { removes: ['bob'] }))
    refused(await register(world, 'bob', 'two'), 'removed')
    assert.deepEqual(await world.run('invite', { id: hex16('two') }), { invite: undefined })
  })

  test('the number of open invites per channel is limited; ended ones do not count', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const maxInvites = 2
    assert.deepEqual(await register(world, 'alice', 'one', { maxInvites }), { done: true })
    assert.deepEqual(await register(world, 'bob', 'two', { maxInvites }), { done: true })
    refused(await register(world, 'bob', 'three', { maxInvites }), 'rate_limited')
    assert.deepEqual(await register(world, 'bob', 'two', { maxInvites }), { done: true })
    assert.deepEqual(await world.run('revokeInvite', { agent: agentId('alice'), id: hex16('one') }), { done: true })
    assert.deepEqual(await register(world, 'bob', 'three', { maxInvites }), { done: true })
    world.now += HOUR
    assert.deepEqual(await register(world, 'bob', 'four', { maxInvites }), { done: true })
    assert.deepEqual(await register(world, 'bob', 'five', { maxInvites }), { done: true })
    refused(await register(world, 'bob', 'six', { maxInvites }), 'rate_limited')
  })

  test('an invite can be revoked by the agent that registered it, any number of times', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    await register(world, 'bob', 'one')
    refused(await world.run('revokeInvite', { agent: agentId('alice'), id: hex16('one') }), 'not_found')
    refused(await world.run('revokeInvite', { agent: agentId('bob'), id: hex16('none') }), 'not_found')
    for (let times = 0; times < 2; times++) {
      assert.deepEqual(await world.run('revokeInvite', { agent: agentId('bob'), id: hex16('one') }), { done: true })
    }
    assert.equal((await world.run('invite', { id: hex16('one') })).invite?.revoked, true)
  })

  test('ended invites are kept for another day, so that joiners learn the reason', async (t) => {
    const world = await open(t)
    await world.found('alice')
    await register(world, 'alice', 'expires')
    await register(world, 'alice', 'revoked', { expiresAt: world.now + 30 * DAY })
    await register(world, 'alice', 'lives', { expiresAt: world.now + 30 * DAY })
    await world.run('revokeInvite', { agent: agentId('alice'), id: hex16('revoked') })
    const known = async (): Promise<string[]> => {
      const labels = ['expires', 'revoked', 'lives']
      const found = await Promise.all(labels.map((label) => world.run('invite', { id: hex16(label) })))
      return labels.filter((_, at) => found[at]?.invite)
    }
    await world.run('sweep', { now: world.now })
    await world.run('sweep', { now: world.now + DAY - 1 })
    assert.deepEqual(await known(), ['expires', 'revoked', 'lives'])
    await world.run('sweep', { now: world.now + DAY })
    assert.deepEqual(await known(), ['expires', 'lives'])
    await world.run('sweep', { now: world.now + DAY + HOUR })
    assert.deepEqual(await known(), ['lives'])
  })

  test('an invite counts as revoked while its agent is off the roster', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    await register(world, 'bob', 'one')
    const revoked = async (): Promise<unknown> => (await world.run('invite', { id: hex16('one') })).invite?.revoked
    assert.equal(await revoked(), false)
    accepted(await world.leave('bob'))
    assert.equal(await revoked(), true)
    accepted(await world.commit('alice', { removes: ['bob'] }))
    assert.equal(await revoked(), true)
    accepted(await world.commit('alice', { adds: ['bob'] }))
    assert.equal(await revoked(), false)
  })
})
