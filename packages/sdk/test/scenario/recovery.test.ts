import assert from 'node:assert/strict'
import { cp, rm } from 'node:fs/promises'
import { test } from 'node:test'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticClient } from '../../src/public/client.ts'
import { openAgentStore } from '../../src/store/sqlcipher.ts'
import { agreed, rest } from '../support/reading.ts'
import { addAgain, code, event, take, waysFor, TestSystem } from '../support/test-system.ts'

/** Out and in again, as the errors say. */
async function rejoin(owner: Channel, agent: StaticClient, broken: Channel): Promise<Channel> {
  await broken.leave()
  return await agent.joinChannel(owner.name, await addAgain(owner, await agent.generateKeyPackage()))
}

async function talk(one: Channel, other: Channel): Promise<void> {
  await one.send('there')
  assert.deepEqual(await take(other, 1), ['there'])
  await other.send('and back')
  assert.deepEqual(await take(one, 1), ['and back'])
}

for (const way of waysFor('quic')) {
  test(`recovery, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)

    /** Changes the database of an agent that is stopped. */
    async function damage(who: string, channel: Channel): Promise<void> {
      const store = await openAgentStore({
        directory: world.directoryOf(who),
        identity: Buffer.from(who),
        makeIdentity: () => assert.fail('There is one.'),
      })
      const epoch = { group: Buffer.from('garbage'), rows: new Map() }
      store.write([{ type: 'putEpoch', id: channel.id, epoch }])
      store.close()
    }

    /** Copies what a stopped agent has on disk, its counter too, so that nothing on this side can tell; puts it back. */
    async function copyOf(who: string): Promise<() => Promise<void>> {
      const [directory, copy] = [world.directoryOf(who), world.directoryOf(`${who}-copy`)]
      await cp(directory, copy, { recursive: true })
      return async () => {
        await rm(directory, { recursive: true })
        await cp(copy, directory, { recursive: true })
      }
    }

    await t.test('an agent leaves a channel whose group cannot be read, and joins again', async () => {
      const name = 'acme/recovery/corrupt'
      const alice = await world.agent('alice', { chance: () => 1 })
      let bob = await world.agent('bob')
      const [a, b] = await world.channel(alice, [bob], name)
      const [other, healthy] = await world.channel(alice, [bob], 'acme/recovery/healthy')
      await a!.send('never read')
      await talk(other!, healthy!)
      await bob.close()
      await damage('bob', b!)
      bob = await world.agent('bob')
      const { channel, error } = await event(bob, 'channel_failed')
      assert.equal(channel, name)
      assert.equal(error.code, 'mls_error')
      const broken = bob.channel(name)
      await assert.rejects(broken.send('hello?'), code('mls_error'))
      await assert.rejects(broken.rotate(), code('mls_error'))
      assert.throws(() => broken.members(), code('mls_error'))
      // What came before is safe.
      assert.deepEqual(await rest(broken), { payloads: ['never read'], end: 'mls_error' })
      await talk(other!, bob.channel('acme/recovery/healthy'))
      // Also after another start.
      await bob.close()
      bob = await world.agent('bob')
      assert.equal((await event(bob, 'channel_failed')).error.code, 'mls_error')
      const again = await rejoin(a!, bob, bob.channel(name))
      await talk(a!, again)
      assert.equal(a!.members().length, 2)
      await agreed(a!, again)
    })

    await t.test('an owner that cannot read its group deletes the channel', async () => {
      const name = 'acme/recovery/owner'
      let carl = await world.agent('carl')
      const dora = await world.agent('dora')
      const [c, d] = await world.channel(carl, [dora], name)
      await carl.close()
      await damage('carl', c!)
      carl = await world.agent('carl')
      const broken = carl.channel(name)
      await assert.rejects(broken.leave(), code('not_allowed'))
      await assert.rejects(broken.send('hello?'), code('mls_error'))
      const reading = rest(d!)
      await broken.delete()
      assert.equal((await reading).end, 'not_found')
      const [anew, joined] = await world.channel(carl, [dora], name)
      await talk(anew!, joined!)
    })

    for (const what of ['sent', 'received']) {
      await t.test(`a restored old copy is detected when the agent has ${what} since`, async () => {
        const name = `acme/recovery/${what}`
        const [owner, who] = [`owner-${what}`, `member-${what}`]
        const eve = await world.agent(owner)
        let fred = await world.agent(who)
        const [e, f] = await world.channel(eve, [fred], name)
        await talk(e!, f!)
        await fred.close()
        const putBack = await copyOf(who)
        fred = await world.agent(who)
        const later = fred.channel(name)
        if (what === 'sent') {
          await later.send('since')
          assert.deepEqual(await take(e!, 1), ['since'])
        } else {
          await e!.send('since')
          assert.deepEqual(await take(later, 1), ['since'])
          // By its answer the relay has heard that the message was read.
          await later.catchUp()
        }
        await fred.close()
        await putBack()
        fred = await world.agent(who)
        const { channel, error } = await event(fred, 'channel_failed')
        assert.equal(channel, name)
        assert.equal(error.code, 'store_rolled_back')
        const old = fred.channel(name)
        await assert.rejects(old.send('with a key that was used'), code('store_rolled_back'))
        assert.deepEqual(await rest(old), { payloads: [], end: 'store_rolled_back' })
        const again = await rejoin(e!, fred, old)
        await talk(e!, again)
        await fred.close()
        fred = await world.agent(who)
        await talk(e!, fred.channel(name))
      })
    }

    await t.test('an old copy restored after the agent left is not a member', async () => {
      const name = 'acme/recovery/left'
      const gus = await world.agent('gus', { chance: () => 1 })
      let hal = await world.agent('hal')
      const [g, h] = await world.channel(gus, [hal], name)
      await talk(g!, h!)
      await hal.close()
      const putBack = await copyOf('hal')
      hal = await world.agent('hal')
      await hal.channel(name).leave()
      await hal.close()
      await putBack()
      hal = await world.agent('hal')
      const old = hal.channel(name)
      assert.deepEqual(await rest(old), { payloads: [], end: 'removed' })
      await assert.rejects(old.send('still here?'), code('removed'))
      const again = await hal.joinChannel(name, await addAgain(g!, await hal.generateKeyPackage()))
      await talk(g!, again)
    })
  })
}
