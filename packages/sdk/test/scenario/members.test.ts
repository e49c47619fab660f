import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Channel } from '../../src/public/channel.ts'
import { agreed, rest } from '../support/reading.ts'
import { addAgain, code, event, take, takeEnvelope, text, waysFor, TestSystem } from '../support/test-system.ts'

const identities = (channel: Channel): string[] =>
  channel
    .members()
    .map(({ identity }) => text(identity))
    .toSorted()

const fingerprints = (channel: Channel): string[] => channel.members().map(({ fingerprint }) => fingerprint)

for (const way of waysFor('quic')) {
  test(`members, ${way}`, async (t) => {
    const world = await TestSystem.start(t, way)

    await t.test('members added one by one read everything from then on', async () => {
      const name = 'acme/members/one-by-one'
      const alice = await world.agent('alice')
      const own = await alice.createChannel(name)
      assert.deepEqual(identities(own), ['alice'])
      const channels = [own]
      for (const [at, who] of ['bob', 'carol', 'dave'].entries()) {
        await own.send(`before ${who}`)
        const agent = await world.agent(who)
        const welcome = await own.addMember(await agent.generateKeyPackage())
        channels.push(await agent.joinChannel(name, welcome))
        await own.send(`hello ${who}`)
        for (const [reader, channel] of channels.slice(1).entries()) {
          const expected = reader === at ? [`hello ${who}`] : [`before ${who}`, `hello ${who}`]
          assert.deepEqual(await take(channel, expected.length), expected)
        }
      }
      for (const channel of channels) {
        assert.deepEqual(identities(channel), ['alice', 'bob', 'carol', 'dave'])
        assert.deepEqual(fingerprints(channel), fingerprints(own))
        assert.equal(channel.owner, alice.fingerprint())
        await agreed(channel, own)
      }
      const first = own.members().find(({ agentId }) => agentId === alice.agentId)
      assert.equal(text(first!.identity), 'alice')
      assert.equal(first!.fingerprint, alice.fingerprint())
      assert.equal(alice.fingerprint().replaceAll(' ', ''), alice.agentId)
    })

    await t.test('members are added in one commit', async () => {
      const [emma, fred, gina, hugo] = await Promise.all(
        ['emma', 'fred', 'gina', 'hugo'].map((who) => world.agent(who)),
      )
      const [e, ...others] = await world.channel(emma!, [fred!, gina!, hugo!], 'acme/members/batch')
      await e!.send('hello all')
      for (const channel of others) {
        const { payload, index } = await takeEnvelope(channel)
        assert.equal(text(payload), 'hello all')
        // Founder removed, three added, keys replaced, this.
        assert.equal(index, 4)
        assert.deepEqual(identities(channel), ['emma', 'fred', 'gina', 'hugo'])
      }
      assert.deepEqual(await e!.addMembers([]), [])
    })

    await t.test('a removed member reads earlier messages and none after, until it is added again', async () => {
      const name = 'acme/members/removal'
      const [ines, jack, kate] = await Promise.all(['ines', 'jack', 'kate'].map((who) => world.agent(who)))
      const [i, j, k] = await world.channel(ines!, [jack!, kate!], name)
      await i!.send('for all')
      await assert.rejects(k!.removeMember(jack!.agentId), code('not_allowed'))
      await assert.rejects(k!.removeMember(ines!.agentId), code('not_allowed'))
      await assert.rejects(k!.removeMember(kate!.agentId), code('not_allowed'))
      await assert.rejects(i!.removeMember(ines!.agentId), code('not_allowed'))
      await assert.rejects(i!.removeMember('0'.repeat(64)), code('not_found'))
      await assert.rejects(i!.removeMember('jack'), code('invalid_request'))
      const told = event(kate!, 'members_changed')
      await i!.removeMember(jack!.agentId)
      const { by, added, removed } = await told
      assert.deepEqual({ by, added, removed }, { by: ines!.agentId, added: [], removed: [jack!.agentId] })
      await i!.send('without jack')
      assert.deepEqual(await rest(j!), { payloads: ['for all'], end: 'removed' })
      assert.deepEqual(await rest(j!), { payloads: [], end: 'removed' })
      await assert.rejects(j!.send('still here?'), code('removed'))
      await assert.rejects(j!.rotate(), code('removed'))
      assert.throws(() => j!.members(), code('removed'))
      assert.deepEqual(identities(i!), ['ines', 'kate'])
      assert.deepEqual(await take(k!, 2), ['for all', 'without jack'])

      const welcome = await i!.addMember(await jack!.generateKeyPackage())
      const again = await jack!.joinChannel(name, welcome)
      assert.notEqual(again, j)
      await i!.send('jack is back')
      await again.send('here I am')
      assert.deepEqual(await take(again, 1), ['jack is back'])
      assert.deepEqual(await take(k!, 2), ['jack is back', 'here I am'])
      assert.deepEqual(await take(i!, 1), ['here I am'])
    })

    await t.test('keys are replaced and messages continue', async () => {
      const name = 'acme/members/rotation'
      const [liam, mona] = await Promise.all(['liam', 'mona'].map((who) => world.agent(who)))
      const alone = await liam!.createChannel(name)
      await alone.rotate()
      await alone.rotate()
      const m = await mona!.joinChannel(name, await alone.addMember(await mona!.generateKeyPackage()))
      await alone.send('before')
      const rekeyed = event(mona!, 'rekeyed')
      await m.rotate()
      assert.equal((await rekeyed).channel, name)
      await alone.send('between')
      await alone.rotate()
      await alone.send('after')
      const epochs: number[] = []
      for (const expected of ['before', 'between', 'after']) {
        const { payload, epoch } = await takeEnvelope(m)
        assert.equal(text(payload), expected)
        epochs.push(epoch)
      }
      const [first = 0] = epochs
      assert.deepEqual(epochs, [first, first + 1, first + 2])
      await m.send('heard')
      assert.equal((await takeEnvelope(alone)).epoch, first + 2)
      await agreed(alone, m)
    })

    await t.test('an agent that leaves is removed by the others and can come back', async () => {
      const name = 'acme/members/leaving'
      const nora = await world.agent('nora', { chance: () => 0 })
      const otto = await world.agent('otto')
      const pia = await world.agent('pia', { chance: () => 0 })
      const [n, o, p] = await world.channel(nora, [otto, pia], name)
      await n!.send('unread')
      const told = [nora, pia].map((agent) => event(agent, 'members_changed', ({ removed }) => removed.length > 0))
      await o!.leave()
      for (const { removed } of await Promise.all(told)) assert.deepEqual(removed, [otto.agentId])
      assert.deepEqual(identities(n!), ['nora', 'pia'])
      assert.throws(() => otto.channel(name), code('not_found'))
      assert.deepEqual(otto.channels(), [])
      await assert.rejects(o!.send('too late'), code('closed'))
      const again = await otto.joinChannel(name, await p!.addMember(await otto.generateKeyPackage()))
      await n!.send('welcome back')
      assert.deepEqual(await take(again, 1), ['welcome back'])
      await again.send('thanks')
      assert.deepEqual(await take(p!, 3), ['unread', 'welcome back', 'thanks'])
    })

    await t.test('an agent that left can come back while its old leaf is still in the tree', async () => {
      const name = 'acme/members/return'
      // They would remove the leaf after five seconds: later than all of this.
      const quinn = await world.agent('quinn', { chance: () => 1 })
      const rosa = await world.agent('rosa')
      const sven = await world.agent('sven', { chance: () => 1 })
      const [q, r, s] = await world.channel(quinn, [rosa, sven], name)
      await r!.send('bye')
      await r!.leave()
      const told = event(sven, 'members_changed')
      const byOwner = await rosa.joinChannel(name, await addAgain(q!, await rosa.generateKeyPackage()))
      const { added, removed } = await told
      assert.deepEqual({ added, removed }, { added: [rosa.agentId], removed: [rosa.agentId] })
      await byOwner.send('back by the owner')
      assert.deepEqual(await take(q!, 2), ['bye', 'back by the owner'])
      assert.deepEqual(await take(s!, 2), ['bye', 'back by the owner'])
      // Another member needs the signed notice: it has it once it has read further.
      await byOwner.leave()
      await q!.send('rosa has left')
      assert.deepEqual(await take(s!, 1), ['rosa has left'])
      const byMember = await rosa.joinChannel(name, await s!.addMember(await rosa.generateKeyPackage()))
      await byMember.send('back by a member')
      assert.deepEqual(await take(q!, 1), ['back by a member'])
      assert.deepEqual(identities(q!), ['quinn', 'rosa', 'sven'])
      await agreed(byMember, q!)
    })

    await t.test('the owner cannot leave, but can delete', async () => {
      const name = 'acme/members/deletion'
      const [tara, umar] = await Promise.all(['tara', 'umar'].map((who) => world.agent(who)))
      const [vera, will] = await Promise.all(['vera', 'will'].map((who) => world.agent(who)))
      const [c, u, v] = await world.channel(tara!, [umar!, vera!, will!], name)
      await assert.rejects(c!.leave(), code('not_allowed'))
      await c!.send('last words')
      assert.deepEqual(await take(v!, 1), ['last words'])
      await vera!.close()
      const reading = rest(u!)
      const told = event(will!, 'channel_failed')
      await c!.delete()
      await told
      await will!.close()
      assert.deepEqual(await reading, { payloads: ['last words'], end: 'not_found' })
      await assert.rejects(u!.send('anybody?'), code('not_found'))
      await assert.rejects(c!.send('anybody?'), code('not_found'))
      assert.throws(() => tara!.channel(name), code('not_found'))
      // Who was away, and who has not read everything, hear of it later.
      const later = await world.agent('vera')
      assert.deepEqual(await rest(later.channel(name)), { payloads: [], end: 'not_found' })
      const behind = await world.agent('will')
      assert.deepEqual(await rest(behind.channel(name)), { payloads: ['last words'], end: 'not_found' })

      const [anew, joined] = await world.channel(tara!, [umar!], name)
      assert.notEqual(anew!.id, c!.id)
      await anew!.send('a new start')
      assert.deepEqual(await take(joined!, 1), ['a new start'])
    })

    await t.test('a channel has at most 250 members', async () => {
      const wade = await world.agent('wade')
      const channel = await wade.createChannel('acme/members/full')
      const none = new Uint8Array(100)
      await assert.rejects(channel.addMembers(Array.from({ length: 251 }, () => none)), code('group_full'))
      await assert.rejects(channel.addMembers(Array.from({ length: 250 }, () => none)), code('group_full'))
      await assert.rejects(channel.addMembers(Array.from({ length: 249 }, () => none)), code('invalid_request'))
      await channel.addMember(await (await world.agent('xena')).generateKeyPackage())
    })
  })
}
