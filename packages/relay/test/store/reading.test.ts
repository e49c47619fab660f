import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StoreResult } from '../../src/ports.ts'
import { accepted, agentId, assertChain, forLedger, hex16, member, notice, welcomeFor } from './channel-fixture.ts'

/** No owner and no standby: the commit changes neither. */
const NONE = new Uint8Array()
const indexes = ({ entries }: { readonly entries: readonly { readonly index: number }[] }): number[] =>
  entries.map(({ index }) => index)

forLedger((open) => {
  test('adding a removed member again without a Welcome does not take away its unread entries', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'mallory')
    const { lastIndex: before } = await world.stand('bob')
    accepted(await world.say('alice'))
    accepted(await world.commit('alice', { removes: ['bob'] }))
    const removed = await world.stand('bob')
    assert.deepEqual([removed.removed, removed.lastIndex], [true, before + 2])
    const slot = world.head
    accepted(await world.commit('mallory', { adds: ['bob'], welcomes: [] }))
    const { addedIndex, cursor } = await world.stand('bob')
    assert.deepEqual(await world.stand('bob'), removed)
    assert.ok(addedIndex <= cursor.index)
    const { entries, ended, from } = await world.read('bob', before)
    assert.deepEqual([entries.map(({ kind }) => kind), ended, from], [['message', 'commit'], true, addedIndex])
    // The same whether the add stands or not.
    await world.reject(member('alice'), slot)
    assert.deepEqual(await world.stand('bob'), removed)
    // With a Welcome it is in a later stay.
    accepted(await world.commit('alice', { adds: ['bob'] }))
    const later = await world.stand('bob')
    assert.deepEqual([later.removed, later.addedIndex], [false, later.lastIndex])
    assert.equal((await world.read('bob', before)).from, later.addedIndex)
  })

  test('a standing says whether the Welcome to that membership is pending', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const request = world.commitRequest('alice', { adds: ['bob'], welcomes: [welcomeFor('bob')] })
    accepted(await world.run('commit', request))
    const { welcome, addedIndex: index } = await world.stand('bob')
    assert.equal(welcome, true)
    await world.run('ack', { agent: agentId('bob'), positions: [{ channel: world.channel, index }] })
    assert.equal((await world.stand('bob')).welcome, false)
  })

  test('a member reads from after the commit that added it to the last entry', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    await world.chatter('bob', 2)
    accepted(await world.commit('alice', { adds: ['carol'] }))
    await world.chatter('alice', 2)
    const all = await world.read('alice', 0)
    assert.deepEqual([indexes(all), all.last, all.gap, all.ended], [[1, 2, 3, 4, 5, 6], 6, undefined, false])
    assert.deepEqual(indexes(await world.read('alice', 4)), [5, 6])
    assert.deepEqual(indexes(await world.read('alice', 6)), [])
    const carol = await world.read('carol', 0)
    assert.deepEqual([indexes(carol), carol.gap], [[5, 6], undefined])
    assertChain(world.channel, carol.entries, (await world.stand('carol')).cursor)
  })

  test('a read is limited in entries and bytes, but returns at least one entry', async (t) => {
    const world = await open(t)
    await world.found('alice')
    await world.chatter('alice', 5, { ciphertext: new Uint8Array(1000) })
    assert.deepEqual(indexes(await world.read('alice', 0, { maxEntries: 2 })), [1, 2])
    assert.deepEqual(indexes(await world.read('alice', 1, { maxBytes: 3000 })), [2, 3, 4])
    assert.deepEqual(indexes(await world.read('alice', 1, { maxBytes: 2999 })), [2, 3])
    assert.deepEqual(indexes(await world.read('alice', 1, { maxBytes: 10 })), [2])
    assert.equal((await world.read('alice', 1, { maxBytes: 10 })).last, 5)
  })

  test('entries of every kind are read as they were announced', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    accepted(await world.say('bob', { control: true }))
    accepted(await world.leave('bob'))
    accepted(await world.commit('carol', { removes: ['bob'], notices: [notice('bob', 1)], adds: ['dave'] }))
    const told = world.told().flatMap((event) => (event.type === 'appended' ? [event.entry] : []))
    const { entries } = await world.read('alice', 0)
    const comparable = (value: unknown): unknown =>
      JSON.parse(
        JSON.stringify(value, (_key, field: unknown) => {
          if (typeof field === 'bigint') return `${field}n`
          return field instanceof Uint8Array ? Buffer.from(field).toString('hex') : field
        }),
      )
    // Stored, an absent owner and an empty one are the same.
    const full = (declaration: object): object => ({ owner: NONE, standby: NONE, ...declaration })
    // A Buffer has a form of its own in JSON.
    const plain = (list: typeof told): unknown =>
      list.map((entry) =>
        comparable(
          Object.fromEntries(
            Object.entries({ ...entry, ...('declaration' in entry && { declaration: full(entry.declaration) }) }).map(
              ([key, field]) => [key, field instanceof Uint8Array ? new Uint8Array(field) : field],
            ),
          ),
        ),
      )
    assert.equal(entries.length, 4)
    assert.deepEqual(plain([...entries]), plain(told))
    assertChain(world.channel, entries)
  })

  test('strangers get nothing, and former members get entries up to their end', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    accepted(await world.say('alice'))
    accepted(await world.commit('alice', { removes: ['bob'] }))
    accepted(await world.say('alice'))
    accepted(await world.leave('carol'))
    accepted(await world.say('alice'))
    assert.deepEqual(await world.read('eve', 3), { entries: [], gap: undefined, last: 3, ended: true, from: undefined })
    const bob = await world.read('bob', 1)
    assert.deepEqual([indexes(bob), bob.last, bob.ended], [[2, 3], 3, true])
    const carol = await world.read('carol', 1)
    assert.deepEqual([indexes(carol), carol.last, carol.ended], [[2, 3, 4, 5], 5, true])
    assert.deepEqual(indexes(await world.read('bob', 3)), [])
  })

  test('a cursor only moves forward, never past the end, and takes the hash and slot of its entry', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.say('alice'))
    accepted(await world.commit('alice'))
    const { entries } = await world.read('alice', 0)
    const cursor = async (): Promise<unknown[]> => {
      const { index, hash, slot } = (await world.stand('alice')).cursor
      if (index > 0) assert.deepEqual(Buffer.from(hash), Buffer.from(entries[index - 1]!.hash))
      return [index, slot]
    }
    await world.ack('alice', 2)
    assert.deepEqual(await cursor(), [2, 1])
    await world.ack('alice', 1)
    assert.deepEqual(await cursor(), [2, 1])
    await world.ack('alice', 99)
    assert.deepEqual(await cursor(), [3, 2])
    await world.run('ack', { agent: agentId('eve'), positions: [{ channel: world.channel, index: 1 }] })
    await world.run('ack', { agent: agentId('alice'), positions: [{ channel: hex16('none'), index: 1 }] })
  })

  test('acknowledgements in an undone membership do not count for the earlier one', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const { addedIndex: from, cursor } = await world.stand('bob')
    await world.chatter('alice', 3)
    const slot = world.head
    accepted(await world.commit('alice', { removes: ['bob'], adds: ['bob'] }))
    const { addedIndex: later } = await world.stand('bob')
    await world.chatter('alice', 2)
    await world.reject(member('alice'), slot)
    const back = await world.stand('bob')
    assert.deepEqual([back.addedIndex, back.cursor.index], [from, cursor.index])
    const { channel } = world
    const ack = (position: { readonly index: number; readonly from: number }): Promise<unknown> =>
      world.run('ack', { agent: agentId('bob'), positions: [{ channel, ...position }] })
    await ack({ index: back.lastIndex, from: later })
    assert.equal((await world.stand('bob')).cursor.index, cursor.index)
    await ack({ index: cursor.index + 1, from })
    assert.equal((await world.stand('bob')).cursor.index, cursor.index + 1)
  })

  test('a cursor far behind also finds its position', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    await world.chatter('alice', 300)
    const { entries } = await world.read('bob', 1)
    await world.ack('bob', 10)
    const { index, hash } = (await world.stand('bob')).cursor
    assert.equal(index, 10)
    assert.deepEqual(Buffer.from(hash), Buffer.from(entries[8]!.hash))
  })

  test('resume returns the standings of an agent in the requested order', async (t) => {
    const world = await open(t)
    const other = hex16('other')
    await world.found('alice', 'bob')
    await world.create('alice', { channel: other, name: 'acme/support/other' })
    await world.run('commit', world.commitRequest('alice', { channel: other, slot: 0, adds: ['bob'] }))
    accepted(await world.say('bob'))
    const none = hex16('none')
    const asked = await world.resume('bob', [other, none, world.channel])
    assert.deepEqual(
      asked.standings.map((standing) => [
        standing.channel,
        'refused' in standing ? standing.refused : standing.lastCounter,
      ]),
      [
        [other, 0],
        [none, 'not_found'],
        [world.channel, 1],
      ],
    )
    assert.deepEqual([asked.member, asked.more], [true, false])
    assert.deepEqual(await world.resume('eve', []), { standings: [], more: false, member: false })
  })

  test('without ids, resume returns all channels of an agent ordered by id, page by page', async (t) => {
    const world = await open(t)
    const channels = Array.from({ length: 25 }, (_, at) => hex16(`page ${at}`))
    for (const [at, channel] of channels.entries()) {
      await world.create('alice', { channel, name: `acme/pages/n${at}` })
      const adds = at % 5 === 0 ? ['carol'] : ['bob']
      accepted(await world.run('commit', world.commitRequest('alice', { channel, slot: 0, adds })))
    }
    const expected = channels.filter((_, at) => at % 5 > 0).sort()
    const seen: string[] = []
    let page = await world.resume('bob', undefined, { limit: 7 })
    assert.equal(page.standings.length, 7)
    for (;;) {
      seen.push(...page.standings.map(({ channel }) => channel))
      assert.equal(page.member, true)
      if (!page.more) break
      page = await world.resume('bob', undefined, { limit: 7, after: seen.at(-1) })
    }
    assert.deepEqual(seen, expected)
    const exact = await world.resume('bob', undefined, { limit: 20 })
    assert.deepEqual([exact.standings.length, exact.more], [20, false])
    const beyond = await world.resume('bob', undefined, { limit: 20, after: expected.at(-1) })
    assert.deepEqual(beyond, { standings: [], more: false, member: true })
  })

  test('Welcomes are returned oldest first, up to the requested bytes, but at least one', async (t) => {
    const world = await open(t)
    const channels = Array.from({ length: 12 }, (_, at) => hex16(`many ${at}`))
    for (const [at, channel] of channels.entries()) {
      await world.create('alice', { channel, name: `a/b/c${at}` })
      const welcomes = [welcomeFor('bob', { welcome: new Uint8Array(10_000).fill(at) })]
      accepted(await world.run('commit', world.commitRequest('alice', { adds: ['bob'], welcomes, channel, slot: 0 })))
    }
    const page = (after: number, maxBytes: number): Promise<StoreResult<'welcomes'>> =>
      world.run('welcomes', { agent: agentId('bob'), after, maxBytes })
    const names = ({ welcomes }: StoreResult<'welcomes'>): unknown => welcomes.map(({ channel }) => channel)
    const first = await page(0, 55_000)
    assert.deepEqual([names(first), first.more], [channels.slice(0, 5), true])
    assert.deepEqual(first.welcomes[3]?.welcome[9999], 3)
    const second = await page(first.welcomes.at(-1)!.sequence, 1)
    assert.deepEqual([names(second), second.more], [channels.slice(5, 6), true])
    const rest = await page(second.welcomes[0]!.sequence, 1_000_000)
    assert.deepEqual([names(rest), rest.more], [channels.slice(6), false])
    assert.deepEqual(await page(rest.welcomes.at(-1)!.sequence, 1), { welcomes: [], more: false })
    // One that is replaced waits at the end.
    const again = { channel: channels[2]!, slot: 1, removes: ['bob'], adds: ['bob'], welcomes: [welcomeFor('bob')] }
    accepted(await world.run('commit', world.commitRequest('alice', again)))
    const all = await world.waiting('bob')
    assert.deepEqual(
      all.map(({ channel }) => channel),
      [...channels.slice(0, 2), ...channels.slice(3), channels[2]],
    )
    assert.deepEqual(
      all.map(({ sequence }) => sequence),
      [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
    )
  })

  test('a former member can resume until it has acknowledged its end', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    accepted(await world.say('alice'))
    accepted(await world.commit('alice', { removes: ['bob'] }))
    accepted(await world.commit('alice'))
    const { removed, head, lastIndex, cursor } = await world.stand('bob')
    assert.deepEqual([removed, head, lastIndex, cursor.index], [true, 2, 3, 1])
    await world.ack('bob', 2)
    assert.equal((await world.stand('bob')).cursor.index, 2)
    await world.ack('bob', 99)
    assert.deepEqual(await world.standing('bob'), { channel: world.channel, refused: 'removed' })
    const { standings, member } = await world.resume('bob')
    assert.deepEqual([standings, member], [[], false])
  })
})
