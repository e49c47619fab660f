import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_MEMBERS } from '@static/protocol'
import {
  account,
  accepted,
  agentId,
  DAY,
  forLedger,
  guest,
  hex16,
  member,
  notice,
  refused,
  welcomeFor,
} from './channel-fixture.ts'

const WEEK = 7 * DAY
const MEMBERS = ['alice', 'bob', 'carol', 'dave', 'erin'] as const

forLedger((open) => {
  test('the owner alone can reject a commit: its adds are undone, its sender is barred, the log stays', async (t) => {
    const world = await open(t)
    await world.found(...MEMBERS)
    accepted(await world.commit('bob', { adds: ['mallory'], welcomes: [welcomeFor('mallory')] }))
    accepted(await world.say('mallory'))
    const before = await world.stand('alice')
    world.told()
    assert.deepEqual(await world.reject(member('alice'), 1), { rejected: true, votes: 1, needed: 3 })
    assert.deepEqual(world.told(), [
      {
        type: 'rejected',
        channel: world.channel,
        slot: 1,
        sender: agentId('bob'),
        undoneAdds: [agentId('mallory')],
        undoneRemoves: [],
      },
    ])
    const after = await world.stand('alice')
    assert.deepEqual([after.head, after.lastIndex], [before.head, before.lastIndex])
    assert.deepEqual(await world.standing('mallory'), { channel: world.channel, refused: 'not_found' })
    refused(await world.say('mallory'), 'not_found')
    assert.deepEqual(await world.waiting('mallory'), [])
    assert.equal((await world.stand('bob')).barred, true)
    refused(await world.commit('bob', { slot: 9 }), 'not_allowed')
    accepted(await world.say('bob'))
    // Said again it does nothing more.
    assert.deepEqual(await world.reject(member('alice'), 1), { rejected: true, votes: 1, needed: 3 })
    assert.equal(world.told().length, 1)
  })

  test('more than half of the roster before a commit can reject it, with one vote each', async (t) => {
    const world = await open(t)
    await world.found(...MEMBERS)
    accepted(await world.commit('bob', { adds: ['mallory'] }))
    world.told()
    assert.deepEqual(await world.reject(guest('carol'), 1), { rejected: false, votes: 1, needed: 3 })
    assert.deepEqual(await world.reject(guest('carol'), 1), { rejected: false, votes: 1, needed: 3 })
    assert.deepEqual(await world.reject(guest('dave'), 1), { rejected: false, votes: 2, needed: 3 })
    assert.deepEqual(world.told(), [])
    // Those who came by it have no say in it.
    refused(await world.reject(guest('mallory'), 1), 'not_allowed')
    refused(await world.reject(guest('eve'), 1), 'not_found')
    assert.deepEqual(await world.reject(guest('erin'), 1), { rejected: true, votes: 3, needed: 3 })
    assert.equal(world.told().length, 1)
    assert.deepEqual(await world.roster(...MEMBERS, 'mallory'), [...MEMBERS])
  })

  test('a member that a rejected commit removed returns with its cursor and counter', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    await world.chatter('carol', 2)
    await world.ack('carol', 2)
    accepted(await world.leave('carol'))
    accepted(await world.commit('bob', { removes: ['carol'], adds: ['carol'], notices: [notice('carol', 1)] }))
    world.recount('carol')
    await world.chatter('carol', 2)
    accepted(await world.commit('alice', { removes: ['carol'], adds: ['mallory'] }))
    world.told()
    refused(await world.say('carol'), 'removed')
    const voted = await world.reject(member('carol'), 1)
    refused(voted, 'not_allowed')
    assert.deepEqual(await world.reject(member('alice'), 2), { rejected: true, votes: 1, needed: 2 })
    const [event] = world.told()
    assert.ok(event?.type === 'rejected')
    assert.deepEqual(
      [event.sender, event.undoneAdds, event.undoneRemoves],
      [agentId('alice'), [agentId('mallory')], [agentId('carol')]],
    )
    const { removed, cursor, lastCounter } = await world.stand('carol')
    assert.deepEqual([removed, cursor.index, lastCounter], [false, 5, 2])
    accepted(await world.say('carol'))
    assert.equal((await world.read('carol', 5)).entries.length, 4)
    // The owner is never barred, not even by itself.
    accepted(await world.commit('alice'))
  })

  test('an agent that was not a member just before the slot has no vote', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol', 'dave')
    accepted(await world.commit('alice', { removes: ['dave'] }))
    accepted(await world.commit('bob', { adds: ['erin'] }))
    refused(await world.reject(guest('dave'), 2), 'not_allowed')
    refused(await world.reject(guest('erin'), 2), 'not_allowed')
    refused(await world.reject(member('alice'), 9), 'not_found')
    refused(await world.run('reject', { actor: member('alice'), channel: hex16('none'), slot: 1 }), 'not_found')
    refused(await world.reject({ agent: agentId('carol'), account: account('carol', 'test') }, 2), 'mode_mismatch')
    accepted(await world.say('carol'))
    refused(await world.reject(guest('carol'), 2), 'api_key_required')
    // No one votes on a commit of the owner.
    refused(await world.reject(member('carol'), 1), 'not_allowed')
  })

  test('an agent that one rejected commit removed and added is restored', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    await world.chatter('carol', 3)
    await world.ack('carol', 3)
    accepted(await world.commit('alice', { removes: ['carol'], adds: ['carol'] }))
    accepted(await world.say('carol', { counter: 1 }))
    world.told()
    assert.equal('rejected' in (await world.reject(member('alice'), 1)), true)
    const [event] = world.told()
    assert.ok(event?.type === 'rejected')
    assert.deepEqual([event.undoneAdds, event.undoneRemoves], [[agentId('carol')], [agentId('carol')]])
    const { cursor, lastCounter, removed } = await world.stand('carol')
    assert.deepEqual([cursor.index, lastCounter, removed], [3, 3, false])
  })

  test('an agent that had left does not return, but must still be removed', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    accepted(await world.leave('carol'))
    const left = notice('carol', 1)
    accepted(await world.commit('bob', { removes: ['carol'], notices: [left] }))
    world.told()
    assert.ok('rejected' in (await world.reject(member('alice'), 1)))
    const [event] = world.told()
    assert.ok(event?.type === 'rejected')
    assert.deepEqual(event.undoneRemoves, [])
    assert.deepEqual(await world.roster('alice', 'bob', 'carol'), ['alice', 'bob'])
    accepted(await world.commit('alice', { removes: ['carol'], notices: [left] }))
  })

  test('the effects of later commits on an agent are kept', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol', 'dave')
    accepted(await world.commit('alice', { removes: ['carol'], adds: ['erin'] }))
    accepted(await world.commit('alice', { adds: ['carol'], removes: ['erin'] }))
    accepted(await world.commit('alice', { removes: ['carol'], adds: ['erin'] }))
    world.told()
    assert.ok('rejected' in (await world.reject(member('alice'), 1)))
    const [event] = world.told()
    assert.ok(event?.type === 'rejected')
    assert.deepEqual([event.undoneAdds, event.undoneRemoves], [[], []])
    assert.deepEqual(await world.roster('alice', 'bob', 'carol', 'dave', 'erin'), ['alice', 'bob', 'dave', 'erin'])
  })

  test('a bar outlives the membership, and only the owner can lift it', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    accepted(await world.commit('bob'))
    accepted(await world.commit('alice', { removes: ['bob'] }))
    assert.ok('rejected' in (await world.reject(member('alice'), 1)))
    await world.run('sweep', { now: world.now + 30 * 86_400_000 })
    accepted(await world.commit('alice', { adds: ['bob'] }))
    refused(await world.commit('bob'), 'not_allowed')
    const lift = (name: string): Promise<object> =>
      world.run('liftBar', { actor: member(name), channel: world.channel, agent: agentId('bob') })
    refused(await lift('carol'), 'not_allowed')
    refused(await lift('eve'), 'not_found')
    world.told()
    assert.deepEqual(await lift('alice'), { done: true })
    assert.deepEqual(world.told(), [{ type: 'barLifted', channel: world.channel, agent: agentId('bob') }])
    assert.deepEqual(await lift('alice'), { done: true })
    assert.deepEqual(world.told(), [])
    accepted(await world.commit('bob'))
  })

  test('a slot can be rejected as long as entries are kept, however many follow it', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.commit('bob', { adds: ['mallory'] }))
    for (let at = 0; at < 100; at++) accepted(await world.commit('alice'))
    refused(await world.reject(guest('mallory'), 1), 'not_allowed')
    world.now += WEEK - 1
    accepted(await world.commit('alice'))
    await world.run('sweep', { now: world.now })
    assert.ok('rejected' in (await world.reject(member('alice'), 1)))
    await world.run('sweep', { now: world.now + 1 })
    refused(await world.reject(member('alice'), 1), 'not_found')
    refused(await world.reject(member('alice'), 101), 'not_found')
    assert.ok('rejected' in (await world.reject(member('alice'), 102)))
  })

  test('an agent whose add was rejected does not return when its removal is rejected too', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.commit('bob', { adds: ['mallory'] }))
    accepted(await world.commit('alice', { removes: ['mallory'] }))
    assert.ok('rejected' in (await world.reject(member('alice'), 1)))
    world.told()
    assert.ok('rejected' in (await world.reject(member('alice'), 2)))
    const [event] = world.told()
    assert.ok(event?.type === 'rejected')
    assert.deepEqual([event.undoneAdds, event.undoneRemoves], [[], []])
    assert.deepEqual(await world.standing('mallory'), { channel: world.channel, refused: 'not_found' })
    refused(await world.say('mallory'), 'not_found')
  })

  test('the same applies when the slot of its add is no longer remembered', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.commit('bob', { adds: ['mallory'] }))
    world.now += 1
    accepted(await world.commit('alice', { removes: ['mallory'] }))
    assert.ok('rejected' in (await world.reject(member('alice'), 1)))
    await world.run('sweep', { now: world.now + WEEK - 1 })
    refused(await world.reject(member('alice'), 1), 'not_found')
    assert.ok('rejected' in (await world.reject(member('alice'), 2)))
    refused(await world.say('mallory'), 'not_found')
  })

  test('a former member that a rejected commit added again can still read to its end', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    await world.chatter('alice', 2)
    accepted(await world.commit('alice', { removes: ['carol'] }))
    const before = await world.stand('carol')
    accepted(await world.commit('bob', { adds: ['carol'], welcomes: [welcomeFor('carol')] }))
    assert.ok('rejected' in (await world.reject(member('alice'), 2)))
    assert.deepEqual(await world.stand('carol'), before)
    assert.deepEqual(await world.waiting('carol'), [])
    const { entries, last, ended } = await world.read('carol', 1)
    assert.deepEqual([entries.length, last, ended], [3, 4, true])
    assert.deepEqual(await world.roster('alice', 'bob', 'carol'), ['alice', 'bob'])
  })

  test('a member that a rejected commit removed continues from what it has read since', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    await world.chatter('carol', 2)
    accepted(await world.commit('alice', { removes: ['carol'] }))
    await world.ack('carol', 4)
    assert.ok('rejected' in (await world.reject(member('alice'), 1)))
    const { cursor, lastCounter, removed } = await world.stand('carol')
    assert.deepEqual([cursor.index, lastCounter, removed], [4, 2, false])
  })

  test('undoing removals cannot make a group too large', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const crowd = (label: string): string[] => Array.from({ length: MAX_MEMBERS - 1 }, (_, at) => `${label} ${at}`)
    const [one, two, three] = [crowd('one'), crowd('two'), crowd('three')]
    accepted(await world.commit('alice', { adds: one }))
    accepted(await world.commit('alice', { removes: one }))
    accepted(await world.commit('alice', { adds: two }))
    accepted(await world.commit('alice', { removes: two }))
    accepted(await world.commit('alice', { adds: three }))
    assert.ok('rejected' in (await world.reject(member('alice'), 1)))
    refused(await world.reject(member('alice'), 3), 'group_full')
    refused(await world.say('two 0'), 'removed')
    // Without the last ones there is room.
    assert.ok('rejected' in (await world.reject(member('alice'), 4)))
    assert.ok('rejected' in (await world.reject(member('alice'), 3)))
    assert.deepEqual(await world.roster('one 7', 'two 7', 'three 7'), ['one 7', 'two 7'])
  })
})
