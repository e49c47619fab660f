import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StoreRequest } from '../../src/ports.ts'
import {
  DAY,
  HOUR,
  account,
  accepted,
  agentId,
  forLedger,
  hex16,
  id16,
  member,
  refused,
  text,
  welcomeFor,
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
    members: false,
    ...fields,
  }
  return world.run('registerInvite', { actor: member(name), invite, maxInvites, now: world.now })
}

forLedger((open) => {
  test('the owner registers an invite, and can repeat the request', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    assert.deepEqual(await register(world, 'alice', 'one', { maxUses: 3 }), { done: true })
    const expected = {
      id: hex16('one'),
      channel: world.channel,
      agent: agentId('alice'),
      admissionKey: text('admission'),
      expiresAt: world.now + HOUR,
      maxUses: 3,
      uses: 0,
      revoked: false,
      members: false,
    }
    assert.deepEqual(await world.run('invite', { id: hex16('one') }), { invite: expected })
    await register(world, 'alice', 'asking', { boxKey: text('key') })
    const asking = await world.run('invite', { id: hex16('asking') })
    assert.deepEqual(Uint8Array.from(asking.invite?.boxKey ?? []), text('key'))
    // More uses, when some came to nothing; never fewer.
    assert.deepEqual(await register(world, 'alice', 'one', { maxUses: 9 }), { done: true })
    assert.deepEqual(await register(world, 'alice', 'one', { maxUses: 2 }), { done: true })
    assert.deepEqual(await world.run('invite', { id: hex16('one') }), { invite: { ...expected, maxUses: 9 } })
    const other = hex16('other')
    await world.create('bob', { channel: other, name: 'acme/support/other' })
    refused(await register(world, 'bob', 'one', { channel: other }), 'invite_invalid')
    refused(await register(world, 'eve', 'two'), 'not_found')
    refused(await register(world, 'alice', 'two', { channel: hex16('none') }), 'not_found')
    const wrong = { agent: agentId('alice'), account: account('alice', 'test') }
    const invite = { ...expected, id: hex16('two') }
    refused(await world.run('registerInvite', { actor: wrong, invite, maxInvites: 9, now: world.now }), 'mode_mismatch')
    assert.deepEqual(await world.run('invite', { id: hex16('two') }), { invite: undefined })
  })

  test('other members cannot register invites, so the limit is the owner’s alone', async (t) => {
    const world = await open(t)
    await world.found('alice', 'mallory')
    const maxInvites = 2
    for (let at = 0; at < 3; at++) refused(await register(world, 'mallory', `${at}`, { maxInvites }), 'not_allowed')
    assert.deepEqual(await register(world, 'alice', 'one', { maxInvites }), { done: true })
    // Nor with the id of an invite of the owner.
    refused(await register(world, 'mallory', 'one', { maxUses: 9 }), 'not_allowed')
    accepted(await world.commit('alice', { removes: ['mallory'] }))
    refused(await register(world, 'mallory', 'two'), 'removed')
  })

  test('the number of open invites per channel is limited; ended ones do not count', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const maxInvites = 2
    assert.deepEqual(await register(world, 'alice', 'one', { maxInvites }), { done: true })
    assert.deepEqual(await register(world, 'alice', 'two', { maxInvites }), { done: true })
    refused(await register(world, 'alice', 'three', { maxInvites }), 'rate_limited')
    assert.deepEqual(await register(world, 'alice', 'two', { maxInvites }), { done: true })
    assert.deepEqual(await world.run('revokeInvite', { agent: agentId('alice'), id: hex16('one'), now: world.now }), {
      done: true,
    })
    assert.deepEqual(await register(world, 'alice', 'three', { maxInvites }), { done: true })
    world.now += HOUR
    assert.deepEqual(await register(world, 'alice', 'four', { maxInvites }), { done: true })
    assert.deepEqual(await register(world, 'alice', 'five', { maxInvites }), { done: true })
    refused(await register(world, 'alice', 'six', { maxInvites }), 'rate_limited')
  })

  test('an invite can be revoked by the agent that registered it, any number of times', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    await register(world, 'alice', 'one')
    refused(await world.run('revokeInvite', { agent: agentId('bob'), id: hex16('one'), now: world.now }), 'not_found')
    refused(
      await world.run('revokeInvite', { agent: agentId('alice'), id: hex16('none'), now: world.now }),
      'not_found',
    )
    for (let times = 0; times < 2; times++) {
      assert.deepEqual(await world.run('revokeInvite', { agent: agentId('alice'), id: hex16('one'), now: world.now }), {
        done: true,
      })
    }
    assert.equal((await world.run('invite', { id: hex16('one') })).invite?.revoked, true)
  })

  test('ended invites are kept for another day, so that joiners learn the reason', async (t) => {
    const world = await open(t)
    await world.found('alice')
    await register(world, 'alice', 'expires')
    await register(world, 'alice', 'revoked', { expiresAt: world.now + 30 * DAY })
    await register(world, 'alice', 'lives', { expiresAt: world.now + 30 * DAY })
    await world.run('revokeInvite', { agent: agentId('alice'), id: hex16('revoked'), now: world.now })
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

  test('a channel keeps a limited number of invites, and drops those that ended longest ago', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const maxInvites = 2
    const known = async (label: string): Promise<boolean> =>
      (await world.run('invite', { id: hex16(label) })).invite !== undefined
    await register(world, 'alice', 'open', { maxInvites })
    await register(world, 'alice', 'used up', { maxInvites, members: true })
    const inviteId = id16('used up')
    const join = { invite: hex16('used up'), channel: world.channel, owner: undefined, agent: agentId('carol') }
    const request = { join: { ...join, box: text('box'), until: world.now + HOUR }, now: world.now }
    await world.run('requestJoin', { ...request, maxPerInvite: 9, maxPerOwner: 9, maxBytes: 9999 })
    accepted(await world.commit('alice', { adds: ['bob'], welcomes: [welcomeFor('bob', { inviteId })] }))
    // 1,000 more than may be open, and each registration drops what is beyond.
    const revoked = Array.from({ length: 1001 }, (_, at) => `revoked ${at}`)
    const come = (labels: readonly string[]): Promise<unknown[]> =>
      Promise.all(
        labels.flatMap((label) => [
          register(world, 'alice', label, { maxInvites }),
          world.run('revokeInvite', { agent: agentId('alice'), id: hex16(label), now: world.now }),
        ]),
      )
    for (const answer of await come(revoked.slice(0, 1000))) assert.deepEqual(answer, { done: true })
    assert.equal(await known('used up'), true)
    world.told()
    await come(revoked.slice(1000))
    assert.equal(await known('used up'), false)
    // A request that members could have answered ends with it.
    const ended = { agent: agentId('carol'), inviteId: hex16('used up'), code: 'invite_used_up' }
    assert.deepEqual(world.told(), [{ type: 'joinAnswered', ...ended }])
    assert.equal(await known('revoked 0'), true)
    assert.deepEqual(await register(world, 'alice', 'last', { maxInvites }), { done: true })
    assert.deepEqual([await known('revoked 0'), await known('revoked 1')], [false, true])
    assert.deepEqual([await known('open'), await known('last')], [true, true])
  })

  test('a sweep deletes a limited number of ended invites', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const labels = Array.from({ length: 1025 }, (_, at) => `invite ${at}`)
    await Promise.all(
      labels.map((label, at) =>
        register(world, 'alice', label, { maxInvites: 2000, expiresAt: world.now + HOUR + at }),
      ),
    )
    const known = async (): Promise<string[]> => {
      const found = await Promise.all(labels.map((label) => world.run('invite', { id: hex16(label) })))
      return labels.filter((_, at) => found[at]?.invite)
    }
    await world.run('sweep', { now: world.now + 2 * DAY })
    assert.deepEqual(await known(), ['invite 1024'])
    await world.run('sweep', { now: world.now + 2 * DAY })
    assert.deepEqual(await known(), [])
  })
})
