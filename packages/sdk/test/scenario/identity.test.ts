import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StaticClient } from '../../src/public/client.ts'
import type { StaticChannelManager } from '../../src/public/manager.ts'
import { agreed } from '../support/reading.ts'
import { code, event, take, text, waysFor, TestSystem } from '../support/test-system.ts'

for (const way of waysFor('grpc')) {
  test(`identities, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)
    /** An agent in a directory of its own that calls itself something: each has another key. */
    const calling = (identity: string, directory: string): Promise<StaticClient> =>
      world.agent(directory, { storeOptions: { identity: Buffer.from(identity) } })

    /** The same for a guest that joins by invites. */
    const guestCalling = (identity: string, directory: string): Promise<StaticChannelManager> =>
      world.manager(directory, { account: null, storeOptions: { identity: Buffer.from(identity) } })

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
      const welcome = await a!.addMember(keyPackage, { acceptNewKey: true })
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
      // It knows of no other key; emma has forgotten the one that dave added, and removed.
      const gina = await world.agent('gina')
      const g = await gina.joinChannel(name, await e!.addMember(await gina.generateKeyPackage()))
      const fred = await calling('fred', 'fred-2')
      const told = event(dave, 'identity_changed')
      const joined = await fred.joinChannel(name, await g.addMember(await fred.generateKeyPackage()))
      const { identity, known, now } = await told
      assert.deepEqual([text(identity), known, now], ['fred', first!.agentId, fred.agentId])
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

    await t.test(
      'a guest that adds an agent called carol keeps the real one out of nothing but that channel',
      async () => {
        const [squatted, elsewhere] = ['acme/identity/squatted', 'acme/identity/elsewhere']
        let olga = await world.manager('olga')
        const guest = await world.manager('guest', { account: null })
        const carol = await guestCalling('carol', 'carol-real')
        const squatter = await calling('carol', 'carol-squatter')
        for (const name of [squatted, elsewhere]) await olga.create(name)
        const entered = await guest.joinWithToken(squatted, await olga.invite(squatted), 20)
        const added = event(olga.client, 'members_changed', ({ added: who }) => who.includes(squatter.agentId))
        await entered.addMember(await squatter.generateKeyPackage())
        await added
        await olga.close()
        olga = await world.manager('olga')

        await carol.joinWithToken(elsewhere, await olga.invite(elsewhere), 20)
        // A group never has two members of one identity: whoever is in decides there, until the owner removes it.
        const refused = carol.joinWithToken(squatted, await olga.invite(squatted), 20)
        await assert.rejects(refused, code('identity_changed', /owner/))
        await assert.rejects(refused, code('identity_changed', new RegExp(carol.client.agentId)))
        await olga.client.channel(squatted).removeMember(squatter.agentId)
        await carol.joinWithToken(squatted, await olga.invite(squatted), 20)
      },
    )

    await t.test(
      'a name taken with an invite of many uses is free again after the removal, unless vouched for',
      async () => {
        const [open, elsewhere] = ['acme/identity/open', 'acme/identity/private']
        const rita = await world.manager('rita')
        for (const name of [open, elsewhere]) await rita.create(name)
        const impostor = await guestCalling('sam', 'sam-impostor')
        await impostor.joinWithToken(open, await rita.invite(open, { maxUses: 5 }), 20)
        const channel = rita.client.channel(open)
        await channel.removeMember(impostor.client.agentId)
        const sam = await guestCalling('sam', 'sam-real')
        await sam.joinWithToken(elsewhere, await rita.invite(elsewhere, { maxUses: 5 }), 20)
        await rita.client.channel(elsewhere).vouch(sam.client.agentId)
        // The owner knows by now who is called so.
        await assert.rejects(
          impostor.joinWithToken(open, await rita.invite(open, { maxUses: 5 }), 20),
          code('identity_changed'),
        )
      },
    )

    await t.test(
      'an identity that this agent admitted is refused with another key, until the owner accepts that',
      async () => {
        const name = 'acme/identity/admitted'
        const paul = await world.manager('paul')
        const [first, second] = [await guestCalling('zoe', 'zoe-1'), await guestCalling('zoe', 'zoe-2')]
        await paul.create(name)
        await first.joinWithToken(name, await paul.invite(name), 20)
        const channel = paul.client.channel(name)
        const gone = event(paul.client, 'members_changed', ({ removed }) => removed.includes(first.client.agentId))
        await first.client.channel(name).leave()
        await gone
        for (const admit of ['owner', 'members'] as const) {
          await assert.rejects(
            second.joinWithToken(name, await paul.invite(name, { admit }), 20),
            code('identity_changed'),
            admit,
          )
        }
        const token = await paul.invite(name)
        await assert.rejects(second.joinWithToken(name, token, 20), code('identity_changed', /static channel accept/))
        await assert.rejects(channel.acceptNewKey('zoe', 'zz'), code('invalid_request'))
        await channel.acceptNewKey('zoe', second.client.agentId)
        await second.joinWithToken(name, token, 20)
        // Now the first key is the other one.
        await assert.rejects(first.joinWithToken(name, await paul.invite(name), 20), code('identity_changed'))
      },
    )
  })
}
