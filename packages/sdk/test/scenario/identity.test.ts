import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StaticClient } from '../../src/client.ts'
import { agreed } from '../support/reading.ts'
import { code, event, take, text, waysFor, TestSystem } from '../support/test-system.ts'

for (const way of waysFor('grpc')) {
  test(`identities, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    /** An agent in a directory of its own that calls itself something: each has another key. */
    const calling = (identity: string, directory: string): Promise<StaticClient> =>
      world.agent(directory, { storeOptions: { identity: Buffer.from(identity) } })

    await t.test('a different key of a known identity is added only if the caller accepts it', async () => {
      const name = 'acme/identity/accepted'
      const alice = await world.agent('alice')
      const carol = await world.agent('carol')
      const bob = await calling('bob', 'bob-1')
      const other = await calling('bob', 'bob-2')
      assert.notEqual(other.agentId, bob.agentId)
      const [a, b, c] = await world.channel(alice, [bob, carol], name)
      const before = a!.verify()
      const keyPackage = await other.generateKeyPackage()
      await assert.rejects(a!.addMember(keyPackage), code('identity_changed'))
      await assert.rejects(c!.addMember(other.agentId), code('identity_changed'))
      // Two leaves of one identity are never in a group, whatever is accepted.
      await assert.rejects(a!.addMember(keyPackage, { acceptNewKey: true }), code('invalid_request'))
      assert.equal(a!.verify(), before)
      await agreed(a!, b!, c!)

      await a!.removeMember(bob.agentId)
      await assert.rejects(a!.addMember(keyPackage), code('identity_changed'))
      const told = event(carol, 'identity_changed')
      const welcome = await a!.addMember(keyPackage, { acceptNewKey: true })
      const { channel, identity, known, now } = await told
      assert.deepEqual([channel, text(identity), known, now], [name, 'bob', bob.agentId, other.agentId])
      const joined = await other.joinChannel(name, welcome)
      await joined.send('it is me')
      for (const member of [a!, c!]) assert.deepEqual(await take(member, 1), ['it is me'])

      // The new key is the known one from now on, the old one another.
      await assert.rejects(a!.addMember(await bob.generateKeyPackage()), code('identity_changed'))
      await a!.removeMember(other.agentId)
      await a!.addMember(await other.generateKeyPackage())
    })

    await t.test('a different key added by another member is reported and splits no group', async () => {
      const name = 'acme/identity/told'
      const dave = await world.agent('dave')
      const emma = await world.agent('emma')
      const [d, f, e] = await world.channel(dave, [await calling('fred', 'fred-1'), emma], name)
      const [first] = f!.members().filter(({ identity }) => text(identity) === 'fred')
      await f!.send('the first fred')
      for (const member of [d!, e!]) assert.deepEqual(await take(member, 1), ['the first fred'])
      await d!.removeMember(first!.agentId)
      // Who came later knows of no other key.
      const gina = await world.agent('gina')
      const g = await gina.joinChannel(name, await e!.addMember(await gina.generateKeyPackage()))
      const fred = await calling('fred', 'fred-2')
      const told = [dave, emma].map((agent) => event(agent, 'identity_changed'))
      const joined = await fred.joinChannel(name, await g.addMember(await fred.generateKeyPackage()))
      for (const { identity, known, now } of await Promise.all(told)) {
        assert.deepEqual([text(identity), known, now], ['fred', first!.agentId, fred.agentId])
      }
      const all = { dave: d!, emma: e!, gina: g, fred: joined }
      for (const [who, channel] of Object.entries(all)) {
        await channel.send(`from ${who}`)
        for (const reader of Object.values(all)) {
          if (reader !== channel) assert.deepEqual(await take(reader, 1), [`from ${who}`])
        }
      }
      await e!.rotate()
      await joined.rotate()
      await d!.send('still together')
      for (const reader of [e!, g, joined]) assert.deepEqual(await take(reader, 1), ['still together'])
      await agreed(d!, e!, g, joined)
      // It was told, not accepted: dave does not add this key to another channel of his by itself.
      const another = await dave.createChannel('acme/identity/another')
      await assert.rejects(another.addMember(fred.agentId), code('identity_changed'))
    })
  })
}
