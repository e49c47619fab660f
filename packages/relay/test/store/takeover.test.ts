/** A guest with one invite tries to take over the relay's roster, or to fill the channel, by commits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maxCommitBytes } from '@static/protocol'
import { accepted, agentId, forLedger, guest, HOUR, member, notice, refused, welcomeFor } from './channel-fixture.ts'

const KIB = 1024
const phantoms = (count: number, label = 'phantom'): string[] =>
  Array.from({ length: count }, (_, at) => `${label} ${at}`)

forLedger((open) => {
  test('a guest cannot outvote the owner with made-up members', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'mallory')
    const mallory = { actor: guest('mallory') }
    // A re-key, then phantoms with Welcomes of their own, which burn slots as fast as they can.
    accepted(await world.commit('mallory', mallory))
    const crowd = phantoms(8)
    accepted(await world.commit('mallory', { ...mallory, adds: crowd }))
    for (let at = 0; at < 72; at++) {
      const name = crowd[at % crowd.length]!
      accepted(await world.commit(name, { actor: guest(name) }))
    }
    const slot = world.head
    accepted(await world.commit('alice', { adds: ['carol'] }))
    for (const name of ['mallory', ...crowd]) {
      refused(await world.reject(guest(name), slot), 'not_allowed')
      refused(await world.reject(guest(name), 0), 'not_allowed')
    }
    assert.equal((await world.stand('alice')).barred, false)
    assert.deepEqual(await world.roster('alice', 'bob', 'carol'), ['alice', 'bob', 'carol'])

    // The first commit is long past 64 slots, and the owner's word on it still counts.
    assert.deepEqual(await world.reject(member('alice'), 2), { rejected: true, votes: 1, needed: 2 })
    assert.deepEqual(await world.roster(...crowd), [])
    refused(await world.commit('mallory', mallory), 'not_allowed')
    accepted(await world.commit('alice'))
  })

  test('an agent is on the roster once its Welcome is stored, and does not delay deletion before', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.commit('bob', { adds: ['carol'], welcomes: [] }))
    assert.deepEqual(await world.roster('alice', 'bob', 'carol'), ['alice', 'bob'])
    assert.deepEqual(await world.standing('carol'), { channel: world.channel, refused: 'not_found' })
    refused(await world.say('carol'), 'not_found')
    refused(await world.commit('carol'), 'not_found')
    refused(await world.leave('carol'), 'not_found')
    assert.deepEqual((await world.read('carol', 0)).entries, [])
    await world.chatter('alice', 100)
    for (const name of ['alice', 'bob']) await world.ack(name, 102)
    await world.run('sweep', { now: world.now })
    assert.deepEqual((await world.read('alice', 0)).gap?.position.index, 102)
    // It is in the group all the same.
    refused(await world.commit('alice', { adds: ['carol'] }), 'invalid_request')
    const send = { actor: member('bob'), channel: world.channel, slot: 1, paid: 0, now: world.now }
    assert.deepEqual(await world.run('welcome', { ...send, welcome: welcomeFor('carol') }), { units: 0 })
    assert.deepEqual(await world.roster('alice', 'bob', 'carol'), ['alice', 'bob', 'carol'])
    accepted(await world.say('carol', { actor: guest('carol') }))
    // What went meanwhile is told.
    assert.equal((await world.read('carol', 2)).gap?.position.index, 102)
  })

  test('an agent that is removed before its Welcome was stored reads nothing and does not delay deletion', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.commit('bob', { adds: ['carol'], welcomes: [] }))
    await world.chatter('alice', 100)
    accepted(await world.commit('alice', { removes: ['carol'] }))
    assert.deepEqual(await world.standing('carol'), { channel: world.channel, refused: 'not_found' })
    assert.deepEqual((await world.read('carol', 0)).entries, [])
    for (const name of ['alice', 'bob']) await world.ack(name, 103)
    await world.run('sweep', { now: world.now })
    assert.equal((await world.read('alice', 0)).gap?.position.index, 103)
  })

  test('agents that are only named raise the size limit only for the owner', async (t) => {
    const world = await open(t, { memberAddsPerHour: 500 })
    await world.found('alice', 'mallory')
    const crowd = phantoms(227)
    const commit = (bytes: number): object => ({ adds: crowd, welcomes: [], commit: new Uint8Array(bytes) })
    refused(await world.commit('mallory', commit(maxCommitBytes(2 + 8) + 1)), 'too_large')
    accepted(await world.commit('mallory', commit(100)))
    refused(await world.commit('mallory', { commit: new Uint8Array(maxCommitBytes(2 + 8) + 1) }), 'too_large')
    accepted(await world.commit('alice', { commit: new Uint8Array(maxCommitBytes(2 + 227)) }))
  })

  test('a guest’s large commits are refused beyond its allowance, and the owner pays nothing for them', async (t) => {
    const world = await open(t)
    await world.found('alice', 'mallory')
    accepted(await world.commit('mallory', { actor: guest('mallory'), adds: phantoms(5) }))
    const results: object[] = []
    for (let at = 0; at < 200; at++) {
      const name = at % 2 === 0 ? 'mallory' : `phantom ${at % 5}`
      results.push(await world.commit(name, { actor: guest(name), commit: new Uint8Array(20 * KIB), paid: 0 }))
    }
    const taken = results.filter((result) => 'index' in result)
    assert.equal(taken.length, 12, '256 KiB for it and all that it brought in')
    for (const result of results.slice(13)) {
      assert.equal(refused(result, 'rate_limited')['retryAfterMs'], HOUR)
    }
    assert.ok(taken.every((result) => 'units' in result && result.units === 0))
    // The owner is free to go on, and so is everybody in the next hour.
    assert.deepEqual(await world.commit('alice', { paid: 0 }), { index: 15, head: 15, units: 0 })
    world.now += HOUR
    accepted(await world.commit('mallory', { actor: guest('mallory'), commit: new Uint8Array(20 * KIB) }))
  })

  test('beyond its allowance the owner pays one message per 4 KiB, for commits and Welcomes', async (t) => {
    const world = await open(t, { freeCommitBytes: 10_000 })
    await world.found('alice')
    const commit = { commit: new Uint8Array(9000) }
    assert.deepEqual(await world.commit('alice', { ...commit, paid: 0 }), { index: 1, head: 1, units: 0 })
    const unpaid = { unpaid: member('alice').account, units: 3 }
    assert.deepEqual(await world.commit('alice', { ...commit, paid: 0 }), unpaid)
    assert.deepEqual(await world.commit('alice', { ...commit, paid: 2 }), unpaid)
    assert.deepEqual(await world.commit('alice', { ...commit, paid: 4 }), { index: 2, head: 2, units: 3 })
    const added = await world.commit('alice', { adds: ['bob'], welcomes: [] })
    assert.deepEqual(added, { index: 3, head: 3, units: 1 })
    const request = { actor: member('alice'), channel: world.channel, slot: 2, now: world.now }
    const welcome = welcomeFor('bob', { welcome: new Uint8Array(4000) })
    assert.deepEqual(await world.run('welcome', { ...request, welcome, paid: 0 }), { ...unpaid, units: 2 })
    assert.deepEqual(await world.run('welcome', { ...request, welcome, paid: 2 }), { units: 2 })
    world.now += HOUR
    assert.deepEqual(await world.commit('alice', { ...commit, paid: 0 }), { index: 4, head: 4, units: 0 })
  })

  test('the allowance of a channel limits everyone but its owner', async (t) => {
    const world = await open(t, { freeChannelCommitBytes: 50_000 })
    await world.found('alice', 'bob', 'carol')
    const commit = { commit: new Uint8Array(20_000), paid: 0 }
    accepted(await world.commit('bob', commit))
    accepted(await world.commit('carol', commit))
    refused(await world.commit('bob', commit), 'rate_limited')
    accepted(await world.commit('alice', commit))
  })

  test('members added by anyone but the owner are limited per hour', async (t) => {
    const world = await open(t, { memberAddsPerHour: 5 })
    await world.found('alice', 'bob', 'carol')
    accepted(await world.commit('bob', { adds: phantoms(3), welcomes: [] }))
    accepted(await world.commit('carol', { adds: phantoms(2, 'more'), welcomes: [] }))
    world.now += 60_000
    const { retryAfterMs } = refused(await world.commit('carol', { adds: ['one more'] }), 'rate_limited')
    assert.equal(retryAfterMs, HOUR - 60_000)
    refused(await world.commit('carol', { adds: phantoms(6, 'many') }), 'too_large')
    accepted(await world.commit('alice', { adds: phantoms(30, 'of the owner') }))
    accepted(await world.commit('carol'))
    world.now += HOUR - 60_000
    accepted(await world.commit('carol', { adds: ['one more'] }))
  })

  test('a full channel accepts only leaves, the owner’s commits and commits that only remove leavers', async (t) => {
    const world = await open(t, { channelBytes: 20_000 })
    await world.found('alice', 'bob', 'carol', 'dave')
    // A Welcome that waits takes its part.
    const welcome = welcomeFor('erin', { welcome: new Uint8Array(16_000) })
    accepted(await world.commit('alice', { adds: ['erin'], welcomes: [welcome] }))
    for (const name of ['alice', 'bob', 'carol', 'dave']) await world.ack(name, 2)
    refused(await world.commit('bob', { commit: new Uint8Array(4000) }), 'queue_full')
    refused(await world.say('bob', { ciphertext: new Uint8Array(4000) }), 'queue_full')
    accepted(await world.commit('alice', { commit: new Uint8Array(4000) }))
    refused(await world.commit('bob'), 'queue_full')
    accepted(await world.leave('carol'))
    const left = { removes: ['carol'], notices: [notice('carol', world.head)] }
    refused(await world.commit('bob', { ...left, adds: ['frank'] }), 'queue_full')
    accepted(await world.commit('bob', left))
    // Taken, it leaves its room to others.
    await world.ack('erin', 2)
    accepted(await world.commit('bob', { commit: new Uint8Array(4000) }))
  })

  test('expired Welcomes free their room', async (t) => {
    const world = await open(t, { channelBytes: 20_000, entryMs: 10 * HOUR })
    await world.found('alice', 'bob')
    const welcome = welcomeFor('carol', { welcome: new Uint8Array(16_000) })
    accepted(await world.commit('alice', { adds: ['carol'], welcomes: [welcome] }))
    refused(await world.say('bob', { ciphertext: new Uint8Array(4000) }), 'queue_full')
    world.now += 10 * HOUR
    await world.run('sweep', { now: world.now })
    accepted(await world.say('bob', { ciphertext: new Uint8Array(4000) }))
  })

  test('the owner resets the roster: phantom members are dropped with their Welcomes, and undone members return', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol', 'dave')
    await world.chatter('carol', 3)
    await world.ack('carol', 3)
    accepted(
      await world.commit('bob', { adds: ['ghost', 'frank'], welcomes: [welcomeFor('ghost'), welcomeFor('frank')] }),
    )
    accepted(await world.commit('bob', { adds: ['nobody'], welcomes: [] }))
    accepted(await world.commit('alice', { removes: ['carol'] }))
    accepted(await world.leave('dave'))
    // Undone by mistake.
    assert.ok('rejected' in (await world.reject(member('alice'), 1)))
    assert.deepEqual(await world.roster('ghost', 'frank', 'carol'), [])
    accepted(
      await world
        .commit('bob', { slot: 9 })
        .then(() => world.commit('alice', { adds: ['erin'], welcomes: [welcomeFor('erin')] })),
    )
    world.told()

    const agents = ['alice', 'bob', 'carol', 'dave', 'frank']
    assert.deepEqual(await world.reset('alice', agents, ['bob', 'carol']), { done: true })
    const [event] = world.told()
    assert.ok(event?.type === 'rosterReset')
    assert.deepEqual([...event.dropped].sort(), ['erin', 'nobody'].map(agentId).sort())
    assert.deepEqual([...event.returned].sort(), ['carol', 'frank'].map(agentId).sort())
    const everybody = [...agents, 'ghost', 'nobody', 'erin']
    // Dave has left by its own word, and is still to be removed.
    assert.deepEqual(await world.roster(...everybody), ['alice', 'bob', 'carol', 'frank'])
    assert.deepEqual(await world.waiting('erin'), [])
    const carol = await world.stand('carol')
    assert.deepEqual([carol.cursor.index, carol.lastCounter], [3, 3])
    accepted(await world.say('carol'))
    assert.equal((await world.stand('frank')).cursor.index, 5)
    // Bars stay, and what came before cannot be undone again.
    refused(await world.commit('bob'), 'not_allowed')
    refused(await world.reject(member('alice'), 2), 'not_found')
    accepted(await world.commit('alice', { removes: ['dave'] }))
    assert.ok('rejected' in (await world.reject(member('alice'), world.head - 1)))
  })

  test('only the owner can reset the roster, for the current head and this log', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.say('bob'))
    const { lastIndex } = await world.stand('alice')
    const { entries } = await world.read('alice', lastIndex - 1)
    const position = { index: lastIndex, hash: entries[0]!.hash, slot: world.head }
    const all = ['alice', 'bob']
    refused(await world.reset('bob', all, []), 'not_allowed')
    refused(await world.reset('alice', ['bob'], []), 'invalid_request')
    refused(await world.reset('alice', ['alice', 'bob', 'bob'], []), 'invalid_request')
    refused(await world.reset('alice', ['alice', ...phantoms(250)], []), 'group_full')
    refused(await world.reset('alice', all, [], { position: { ...position, hash: new Uint8Array(32) } }), 'not_allowed')
    accepted(await world.commit('bob'))
    assert.deepEqual(await world.reset('alice', all, [], { position }), { refused: 'epoch_mismatch', head: 2 })
    refused(await world.reset('alice', all, [], { position: { ...position, slot: 2 } }), 'epoch_mismatch')
    refused(await world.reset('alice', all, [], { position: { ...position, slot: 2, index: 99 } }), 'epoch_mismatch')
    // Messages after the place that the owner has seen do not matter.
    const next = await world.read('alice', 2)
    accepted(await world.say('bob'))
    const seen = { index: 3, hash: next.entries[0]!.hash, slot: 2 }
    assert.deepEqual(await world.reset('alice', all, [], { position: seen }), { done: true })
    assert.deepEqual(await world.roster(...all), all)
  })

  for (const how of ['with a Welcome', 'with a later Welcome', 'without a Welcome'] as const) {
    test(`an agent that was removed while away loses nothing unread when a member adds it again ${how}`, async (t) => {
      const world = await open(t)
      await world.found('alice', 'bob', 'carol', 'mallory')
      const readAll = async (): Promise<void> => {
        for (const name of ['alice', 'bob', 'mallory']) await world.ack(name, (await world.stand(name)).lastIndex)
      }
      const { index: read } = (await world.stand('carol')).cursor
      await world.chatter('bob', 100)
      accepted(await world.commit('alice', { removes: ['carol'] }))
      await readAll()
      const unread = (await world.read('carol', read)).entries
      assert.ok(unread.length > 100)

      const slot = world.head
      const [actor, welcome] = [guest('mallory'), welcomeFor('carol')]
      accepted(
        await world.commit('mallory', { actor, adds: ['carol'], welcomes: how === 'with a Welcome' ? [welcome] : [] }),
      )
      if (how === 'with a later Welcome') {
        const fields = { actor, channel: world.channel, slot, welcome, paid: 0, now: world.now }
        assert.deepEqual(await world.run('welcome', fields), { units: 0 })
      }
      await world.chatter('bob', 100)
      await readAll()
      await world.run('sweep', { now: world.now })
      assert.ok('rejected' in (await world.reject(member('alice'), slot)))
      await world.run('sweep', { now: world.now })
      const { entries, gap } = await world.read('carol', read)
      assert.deepEqual([entries, gap], [unread, undefined])
    })
  }

  test('unread entries of an earlier membership are kept until the agent acknowledges its new Welcome', async (t) => {
    const world = await open(t)
    await world.found('alice', 'carol')
    const { index: read } = (await world.stand('carol')).cursor
    await world.chatter('alice', 100)
    accepted(await world.commit('alice', { removes: ['carol'] }))
    accepted(await world.commit('alice', { adds: ['carol'], welcomes: [welcomeFor('carol')] }))
    const { lastIndex } = await world.stand('alice')
    await world.ack('alice', lastIndex)
    const oldest = async (): Promise<unknown> => (await world.read('alice', read)).gap?.position.index
    assert.equal(await oldest(), undefined)
    await world.ack('carol', lastIndex)
    assert.equal(await oldest(), lastIndex)
  })

  test('an agent that was added again and never joins delays the deletion of entries only until they expire', async (t) => {
    const world = await open(t)
    await world.found('alice', 'carol')
    await world.chatter('alice', 100)
    accepted(await world.commit('alice', { removes: ['carol'] }))
    accepted(await world.commit('alice', { adds: ['carol'], welcomes: [] }))
    const { lastIndex } = await world.stand('alice')
    await world.ack('alice', lastIndex)
    world.now += 8 * 24 * HOUR
    await world.run('sweep', { now: world.now })
    await world.chatter('alice', 100)
    await world.ack('alice', lastIndex + 100)
    assert.equal((await world.read('alice', lastIndex)).gap?.position.index, lastIndex + 100)
  })

  test('a member whose addition was undone returns with its cursor and counter when the owner resets the roster', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const slot = world.head
    accepted(await world.commit('bob', { adds: ['dave'], welcomes: [welcomeFor('dave')] }))
    await world.chatter('dave', 5)
    await world.ack('dave', (await world.stand('dave')).lastIndex - 1)
    const before = await world.stand('dave')
    assert.equal(before.lastCounter, 5)
    assert.ok('rejected' in (await world.reject(member('alice'), slot)))
    assert.deepEqual(await world.roster('dave'), [])
    assert.deepEqual(await world.reset('alice', ['alice', 'bob', 'dave'], ['bob']), { done: true })
    const { cursor, lastCounter, addedIndex } = await world.stand('dave')
    assert.deepEqual([cursor.index, lastCounter, addedIndex], [before.cursor.index, 5, before.addedIndex])
    accepted(await world.say('dave'))
  })
})
