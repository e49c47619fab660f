import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_WELCOME_BYTES } from '@static/protocol'
import {
  type ChannelFixture,
  accepted,
  agentId,
  forEachEngine,
  member,
  refused,
  text,
  welcomeFor,
} from './channel-fixture.ts'

const NAMES = ['bob', 'carol', 'dave']

/** Adds these agents with Welcomes that share their end. */
async function add(
  world: ChannelFixture,
  sender: string,
  adds: readonly string[],
  groupInfo: Uint8Array,
): Promise<number> {
  const welcomes = adds.map((name) => welcomeFor(name))
  return accepted(await world.commit(sender, { adds, welcomes, groupInfo }))
}

async function delivered(world: ChannelFixture, name: string): Promise<readonly string[]> {
  return (await world.waiting(name)).map(({ welcome }) => new TextDecoder().decode(welcome))
}

forEachEngine((open) => {
  test('each joiner gets its Welcome with the shared GroupInfo, which is deleted with the last of them', async (t) => {
    // Room for the records of the commit, for the shared end once, and for little else.
    const world = await open(t, { channelBytes: 23_000 })
    await world.found('alice')
    const shared = 'g'.repeat(12_000)
    const index = await add(world, 'alice', NAMES, text(shared))
    for (const name of NAMES) assert.deepEqual(await delivered(world, name), [`welcome ${name}${shared}`])
    const large = { ciphertext: new Uint8Array(4000) }
    // The others wait for it still.
    for (const name of ['bob', 'carol']) await world.ack(name, index)
    assert.deepEqual(await delivered(world, 'dave'), [`welcome dave${shared}`])
    accepted(await world.say('bob', large))
    refused(await world.say('carol', large), 'queue_full')
    await world.ack('dave', index)
    assert.deepEqual(await delivered(world, 'dave'), [])
    accepted(await world.say('carol', large))
    accepted(await world.say('dave', large))
  })

  test('a commit with a GroupInfo but without Welcomes is refused, because nothing would delete the GroupInfo', async (t) => {
    const world = await open(t)
    await world.found('alice', 'bob')
    const groupInfo = new Uint8Array(1000)
    refused(await world.commit('bob', { groupInfo }), 'invalid_request')
    refused(await world.commit('alice', { adds: ['carol'], welcomes: [], groupInfo }), 'invalid_request')
    accepted(await world.commit('bob'))
  })

  test('the size of a page of Welcomes counts bytes as delivered', async (t) => {
    const world = await open(t)
    await world.found('alice')
    await add(world, 'alice', ['bob'], new Uint8Array(5000))
    const other = '0'.repeat(32)
    await world.create('alice', { channel: other, name: 'acme/support/other' })
    const welcomes = [welcomeFor('bob')]
    accepted(await world.commit('alice', { channel: other, slot: 0, adds: ['bob'], welcomes }))
    const page = (maxBytes: number): Promise<{ more: boolean }> =>
      world.run('welcomes', { agent: agentId('bob'), after: 0, maxBytes })
    assert.equal((await page(5500)).more, true)
    assert.equal((await page(7000)).more, false)
  })

  test('the bytes of a shared GroupInfo count once for its sender', async (t) => {
    const world = await open(t, { freeCommitBytes: 10_000 })
    await world.found('alice', 'bob')
    // Three times 4,000 would be too much for a member that is not the owner.
    await add(world, 'bob', ['carol', 'dave', 'erin'], new Uint8Array(4000))
    const adds = ['frank']
    const welcomes = adds.map((name) => welcomeFor(name))
    refused(await world.commit('bob', { adds, welcomes, groupInfo: new Uint8Array(4000) }), 'rate_limited')
    refused(await world.commit('bob', { adds, welcomes, groupInfo: new Uint8Array(11_000) }), 'too_large')
  })

  test('the size of a Welcome is measured as delivered', async (t) => {
    const world = await open(t)
    await world.found('alice')
    const crowd = Array.from({ length: 120 }, (_, at) => `guest ${at}`)
    accepted(await world.commit('alice', { adds: crowd }))
    const welcomes = [welcomeFor('bob', { welcome: new Uint8Array(1000) })]
    const commit = (size: number): Promise<object> =>
      world.commit('alice', { adds: ['bob'], welcomes, groupInfo: new Uint8Array(size) })
    refused(await commit(MAX_WELCOME_BYTES - 999), 'too_large')
    accepted(await commit(MAX_WELCOME_BYTES - 1000))
  })

  test('a rejected commit, a roster reset and expiry delete the shared GroupInfo with the Welcomes', async (t) => {
    const ends: Record<string, (world: ChannelFixture) => Promise<unknown>> = {
      rejected: (world) => world.reject(member('alice'), 1),
      reset: async (world) => {
        const { cursor } = await world.stand('alice')
        const { entries } = await world.read('alice', cursor.index)
        const last = entries.at(-1)!
        const position = { index: last.index, hash: last.hash, slot: world.head }
        const agents = [agentId('alice'), agentId('bob')]
        const request = { actor: member('alice'), channel: world.channel, position, agents, vouched: [] }
        assert.deepEqual(await world.run('resetRoster', request), { done: true })
      },
      expired: (world) => world.run('sweep', { now: world.now + 1000 }),
    }
    for (const [what, end] of Object.entries(ends)) {
      const world = await open(t, { channelBytes: 23_600, entryMs: 1000 })
      await world.found('alice', 'bob')
      await world.ack('alice', 1)
      await add(world, 'bob', ['carol', 'dave'], new Uint8Array(16_000))
      refused(await world.say('alice', { ciphertext: new Uint8Array(4500) }), 'queue_full')
      await end(world)
      for (const name of ['carol', 'dave']) assert.equal((await delivered(world, name)).length, 0, what)
      accepted(await world.say('alice', { ciphertext: new Uint8Array(4500) }))
    }
  })

  test('a later Welcome is complete, and replaces one with a shared GroupInfo', async (t) => {
    const world = await open(t)
    await world.found('alice')
    await add(world, 'alice', ['bob', 'carol'], text(' shared'))
    const send = { actor: member('alice'), channel: world.channel, slot: 0, paid: 0, now: world.now }
    assert.deepEqual(await world.run('welcome', { ...send, welcome: welcomeFor('bob', { welcome: text('whole') }) }), {
      units: 0,
    })
    assert.deepEqual(await delivered(world, 'bob'), ['whole'])
    assert.deepEqual(await delivered(world, 'carol'), ['welcome carol shared'])
  })
})
