/** What an account may see of its channels: names, members and sizes, in bounded number. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { accepted, account, agentId, forEachEngine, hex16, member } from './channel-fixture.ts'

const LIMITS = { skip: 0, maxChannels: 10, maxMembersPerChannel: 10, maxMembers: 100 }
const alice = account('alice').id

forEachEngine((open) => {
  test('an account sees its own channels, with members and what waits for them', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    const created = world.now
    world.now += 5000
    await world.chatter('alice', 3, { ciphertext: new Uint8Array(1000) })
    const { lastIndex } = await world.stand('bob')
    const positions = [{ channel: world.channel, index: lastIndex }]
    await world.run('ack', { agent: agentId('bob'), positions })
    await world.run('ack', { agent: agentId('alice'), positions })
    await world.create('alice', {
      channel: hex16('second'),
      name: 'acme/a/first-by-name',
      actor: { agent: agentId('alice-2'), account: account('alice', 'test') },
    })
    const { total, channels } = await world.run('owned', { account: alice, ...LIMITS })
    assert.equal(total, 2)
    assert.deepEqual(
      channels.map(({ name, mode, owner, members }) => [name, mode, owner, members]),
      [
        ['acme/support/routing', 'live', agentId('alice'), 3],
        ['acme/a/first-by-name', 'test', agentId('alice-2'), 1],
      ],
    )
    const [first] = channels
    assert.deepEqual([first?.createdAt, first?.lastAt], [created, world.now])
    assert.ok((first?.waitingBytes ?? 0) > 3000)
    const { cursor } = await world.stand('carol')
    assert.equal(channels[1]?.waitingBytes, 0, 'nobody is behind')
    assert.deepEqual(first?.behind[0], { agent: agentId('carol'), waiting: lastIndex - cursor.index })
    assert.deepEqual(
      first?.behind.slice(1).map(({ waiting }) => waiting),
      [0, 0],
    )
    assert.deepEqual(await world.run('owned', { account: account('bob').id, ...LIMITS }), { total: 0, channels: [] })
  })

  test('removed members are not listed, and every list has a limit', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob', 'carol')
    accepted(await world.commit('alice', { removes: ['bob'] }))
    for (const name of ['a', 'b', 'c']) await world.create('alice', { channel: hex16(name), name: `acme/x/${name}` })
    const all = await world.run('owned', { account: alice, ...LIMITS })
    assert.deepEqual(
      all.channels.map(({ members }) => members),
      [2, 1, 1, 1],
    )
    assert.ok(!JSON.stringify(all).includes(member('bob').agent))
    const few = await world.run('owned', {
      account: alice,
      skip: 0,
      maxChannels: 3,
      maxMembersPerChannel: 1,
      maxMembers: 2,
    })
    assert.equal(few.total, 4)
    assert.deepEqual(
      few.channels.map(({ members, behind }) => [members, behind.length]),
      [
        [2, 1],
        [1, 1],
        [1, 0],
      ],
    )
    const rest = await world.run('owned', { account: alice, ...LIMITS, skip: 3 })
    assert.deepEqual([rest.total, rest.channels], [4, all.channels.slice(3)])
  })
})
