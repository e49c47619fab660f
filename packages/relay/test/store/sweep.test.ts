import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, accepted, forLedger, guest, notice, refused, welcomeFor } from './channel-fixture.ts'

forLedger((open) => {
  test('the next sweep deletes entries that all have acknowledged, and no others', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    await world.chatter('bob', 5)
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 0 })
    await world.ack('alice', 6)
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 1 })
    await world.ack('bob', 4)
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 3 })
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 0 })
    const { entries, gap } = await world.read('bob', 4)
    assert.deepEqual([entries.map(({ index }) => index), gap], [[5, 6], undefined])
    assert.equal((await world.read('alice', 0)).gap?.position.index, 4)
  })

  test('many entries that all have acknowledged are deleted immediately, without a sweep', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    await world.chatter('bob', 63)
    await world.ack('alice', 63)
    await world.ack('bob', 63)
    assert.equal((await world.read('alice', 0)).gap, undefined)
    await world.ack('alice', 64)
    await world.ack('bob', 64)
    assert.equal((await world.read('alice', 0)).gap?.position.index, 64)
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 0 })
  })

  test('a member that has left does not delay deletion', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    await world.chatter('alice', 3)
    await world.ack('alice', 4)
    await world.ack('bob', 4)
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 1 })
    accepted(await world.leave('carol'))
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 3 })
    accepted(await world.commit('alice', { removes: ['carol'] }))
    await world.ack('alice', 6)
    await world.ack('bob', 6)
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 2 })
  })

  test('entries that a removed member has not read are kept until it has read to its end', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    await world.chatter('alice', 100)
    accepted(await world.commit('alice', { removes: ['bob'] }))
    await world.chatter('alice', 100)
    await world.ack('alice', 202)
    // The commit that added bob.
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 1 })
    const { gap, entries, last } = await world.read('bob', 1)
    assert.deepEqual([gap, entries[0]?.index, entries.length, last], [undefined, 2, 101, 102])
    await world.ack('bob', 50)
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 49 })
    assert.equal((await world.read('bob', 50)).gap, undefined)
    await world.ack('bob', 102)
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 0 })
    assert.equal((await world.read('alice', 0)).gap?.position.index, 202)
    assert.deepEqual(await world.standing('bob'), { channel: world.channel, refused: 'removed' })
  })

  test('entries that a removed member has not read are kept for the lifetime of an entry, and no longer', async (t) => {
    const world = await open(t, { entryMs: 1000 })
    await world.found('alice', 'bob')
    await world.chatter('alice', 3)
    accepted(await world.commit('alice', { removes: ['bob'] }))
    await world.ack('alice', 5)
    await world.run('sweep', { now: world.now + 999 })
    assert.equal((await world.read('bob', 1)).entries.length, 4)
    await world.run('sweep', { now: world.now + 1000 })
    refused(await world.say('bob'), 'not_found')
    assert.equal((await world.read('alice', 0)).gap?.position.index, 5)
  })

  test('entries expire oldest first, and a member that has not fetched them gets a gap', async (t) => {
    const world = await open(t, { entryMs: 1000 })
    await world.found('alice', 'bob')
    world.now += 400
    await world.chatter('bob', 2)
    world.now += 400
    accepted(await world.commit('alice'))
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 0 })
    world.now += 200
    assert.deepEqual(await world.run('sweep', { now: world.now - 1 }), { removed: 0 })
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 1 })
    world.now += 400
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 2 })
    const { gap, entries } = await world.read('bob', 1)
    assert.deepEqual([gap?.first, gap?.position.index, gap?.commitLost], [2, 3, false])
    assert.deepEqual(
      entries.map(({ index }) => index),
      [4],
    )
    world.now += 400
    assert.deepEqual(await world.run('sweep', { now: world.now }), { removed: 1 })
    assert.equal((await world.read('bob', 1)).gap?.commitLost, true)
    assert.equal(accepted(await world.say('bob')), 5)
  })

  test('the work of a sweep is limited, and the next ones do the rest', async (t) => {
    const world = await open(t, { entryMs: 1000 })
    await world.found('alice', 'bob')
    for (let times = 0; times < 5; times++) await world.chatter('bob', 1000)
    world.now += 1000
    const removed: number[] = []
    for (let last = 1; last > 0;) {
      last = (await world.run('sweep', { now: world.now })).removed
      removed.push(last)
    }
    assert.deepEqual(removed, [4096, 905, 0])
  })

  test('Welcomes that are not fetched expire', async (t) => {
    const world = await open(t, { entryMs: 1000 })
    await world.found('alice')
    accepted(await world.commit('alice', { adds: ['bob'], welcomes: [welcomeFor('bob')] }))
    const waiting = async (): Promise<number> => (await world.waiting('bob')).length
    await world.run('sweep', { now: world.now + 999 })
    assert.equal(await waiting(), 1)
    await world.run('sweep', { now: world.now + 1000 })
    assert.equal(await waiting(), 0)
  })

  test('former members are forgotten, but not one that must still be removed', async (t) => {
    const world = await open(t, { entryMs: 1000 })
    await world.found('alice', 'bob', 'carol')
    accepted(await world.commit('alice', { removes: ['bob'] }))
    accepted(await world.leave('carol'))
    await world.run('sweep', { now: world.now + 999 })
    refused(await world.say('bob'), 'removed')
    await world.run('sweep', { now: world.now + 1000 })
    refused(await world.say('bob'), 'not_found')
    refused(await world.say('carol'), 'removed')
    accepted(await world.commit('alice', { removes: ['carol'], notices: [notice('carol', 2)] }))
    await world.run('sweep', { now: world.now + 1000 })
    refused(await world.say('carol'), 'not_found')
  })

  test('a message id has its own lifetime, whatever the sweep has deleted', async (t) => {
    const world = await open(t, { entryMs: 1000, messageIdMs: 7 * DAY })
    await world.found('alice')
    const request = world.message('alice')
    accepted(await world.run('append', request))
    await world.run('sweep', { now: world.now + 7 * DAY - 1 })
    assert.deepEqual(await world.run('append', request), { index: 1, charged: false })
    await world.run('sweep', { now: world.now + 8 * DAY })
    refused(await world.run('append', request), 'out_of_order')
  })

  test('a channel remembers a limited number of former members: those that have read everything go first, then the oldest', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const crowd = (round: number): string[] => Array.from({ length: 249 }, (_, at) => `${round} ${at}`)
    accepted(await world.commit('alice', { adds: crowd(0) }))
    accepted(await world.say('0 7'))
    for (let round = 1; round <= 5; round++) {
      if (round === 4) await world.ack('3 9', 999)
      world.now += 1000
      accepted(await world.commit('alice', { removes: crowd(round - 1), adds: crowd(round) }))
      if (round === 4) await world.ack('3 9', 999)
    }
    const known = async (...names: string[]): Promise<unknown> =>
      (await Promise.all(names.map((name) => world.standing(name)))).map((standing) =>
        'refused' in standing ? standing.refused : standing.removed,
      )
    assert.deepEqual(await known('0 0', '0 7', '3 9'), ['not_found', 'not_found', 'not_found'])
    assert.deepEqual(await known('2 0', '3 0', '4 0', '5 0'), [true, true, true, false])
    const all = await Promise.all(Array.from({ length: 5 }, (_, round) => known(...crowd(round))))
    assert.equal(all.flat().filter((each) => each === true).length, 900)
    // What one of them has acted for is not forgotten with it.
    accepted(await world.commit('alice', { removes: ['5 0'], adds: ['0 7'] }))
    refused(await world.say('0 7', { actor: guest('0 7'), counter: 1 }), 'api_key_required')
  })

  test('an agent that has acted for an account cannot be a guest after it has left and returned, however late', async (t) => {
    const world = await open(t, { entryMs: 1000 })
    await world.found('alice', 'bob')
    accepted(await world.say('bob'))
    accepted(await world.leave('bob'))
    accepted(await world.commit('alice', { removes: ['bob'] }))
    world.now += 2000
    await world.run('sweep', { now: world.now })
    refused(await world.say('bob'), 'not_found')
    accepted(await world.commit('alice', { adds: ['bob'] }))
    refused(await world.say('bob', { actor: guest('bob'), counter: 1 }), 'api_key_required')
    accepted(await world.say('bob', { counter: 1 }))
  })
})
