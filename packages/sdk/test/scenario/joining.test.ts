import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { AuthError, StaticError } from '@static/protocol'
import type { Channel } from '../../src/public/channel.ts'
import type { JoinOffer, StaticClient } from '../../src/public/client.ts'
import { agreed, rest } from '../support/reading.ts'
import { code, event, take, text, waysFor, TestSystem } from '../support/test-system.ts'

const BAD_NAMES = [
  '',
  'acme',
  'acme/support',
  'acme/support/routing/more',
  'acme//routing',
  '/support/routing',
  'acme/support/',
  'acme/support/-routing',
  'acme/support/routing-',
  'Acme/support/routing',
  'acme/support/rout_ing',
  'acme/support/routing ',
  'acme/support/routing\n',
  'acme/süpport/routing',
  `acme/support/${'r'.repeat(64)}`,
]

async function nextOffer(client: StaticClient): Promise<JoinOffer> {
  for await (const offer of client.joins()) return offer
  throw new Error('The agent was closed.')
}

/** Takes two KeyPackages of an agent out of the pool and adds nobody; returns false if there were fewer. */
async function claim(channel: Channel, agentId: string): Promise<boolean> {
  try {
    await channel.addMembers([agentId, agentId])
  } catch (error) {
    assert.ok(error instanceof StaticError)
    if (error.code === 'key_package_unavailable') return false
    // Nobody can be in a group twice.
    assert.equal(error.code, 'invalid_request', error.message)
    return true
  }
  throw new Error('An agent was added more than once.')
}

/** Claims 16 KeyPackages, two at a time: all that the pool holds. */
async function claimAll(channel: Channel, agentId: string): Promise<void> {
  for (let claimed = 0; claimed < 16; claimed += 2) while (!(await claim(channel, agentId)));
}

/** Adds an agent once the relay holds a KeyPackage of it again: a refill may still be under way. */
async function addOnceSupplied(channel: Channel, agentId: string): Promise<void> {
  for (;;) {
    try {
      await channel.addMember(agentId)
      return
    } catch (error) {
      assert.ok(error instanceof StaticError)
      assert.equal(error.code, 'key_package_unavailable', error.message)
    }
  }
}

for (const way of waysFor('grpc')) {
  test(`joining, ${way}`, async (t) => {
    const settings = { rates: { claimsPerMinute: 100_000, claimsPerTargetPerMinute: 100_000 } }
    const world = await TestSystem.start(t, way, { settings })

    await t.test('a guest joins with a Welcome and sends, but cannot create channels', async () => {
      const name = 'acme/joining/guest'
      const alice = await world.agent('alice')
      const guest = await world.agent('guest', { account: null })
      const own = await alice.createChannel(name)
      const welcome = await own.addMember(await guest.generateKeyPackage())
      const joined = await guest.joinChannel(name, welcome)
      await own.send('hello guest')
      assert.deepEqual(await take(joined, 1), ['hello guest'])
      await joined.send('hello alice')
      await joined.rotate()
      await joined.send('with new keys')
      assert.deepEqual(await take(own, 2), ['hello alice', 'with new keys'])
      await assert.rejects(guest.createChannel('acme/joining/by-guest'), (error) => {
        assert.ok(error instanceof AuthError)
        return code('api_key_required')(error)
      })
      assert.deepEqual(
        guest.channels().map((channel) => channel.name),
        [name],
      )
    })

    await t.test('bad names are refused', async () => {
      const agent = await world.agent('namer')
      for (const name of BAD_NAMES) {
        await assert.rejects(agent.createChannel(name), code('channel_error'), JSON.stringify(name))
        await assert.rejects(agent.joinChannel(name, new Uint8Array(100)), code('channel_error'), JSON.stringify(name))
        assert.throws(() => agent.channel(name), code('channel_error'), JSON.stringify(name))
      }
      assert.throws(() => agent.channel('acme/joining/unknown'), code('not_found'))
    })

    await t.test('wrong Welcomes are refused and do not affect the right one', async () => {
      const name = 'acme/joining/welcomes'
      const [carl, dora, evan] = await Promise.all(['carl', 'dora', 'evan'].map((who) => world.agent(who)))
      const own = await carl!.createChannel(name)
      const forDora = await dora!.generateKeyPackage()
      const [welcome, other] = await own.addMembers([forDora, await evan!.generateKeyPackage()])
      const wrong = {
        empty: new Uint8Array(),
        garbage: new Uint8Array(randomBytes(1000)),
        KeyPackage: forDora,
        truncated: welcome!.subarray(0, -1),
        half: welcome!.subarray(0, welcome!.length / 2),
        longer: Buffer.concat([welcome!, Buffer.of(0)]),
        changed: welcome!.with(welcome!.length - 20, welcome!.at(-20)! ^ 1),
        "another's": other!,
      }
      for (const [what, bytes] of Object.entries(wrong)) {
        await assert.rejects(dora!.joinChannel(name, bytes), code('invalid_welcome'), what)
      }
      await assert.rejects(dora!.joinChannel('acme/joining/elsewhere', welcome!), code('invalid_welcome'))
      const owners = { owner: evan!.fingerprint() }
      await assert.rejects(dora!.joinChannel(name, welcome!, owners), code('invalid_welcome'))
      await assert.rejects(dora!.joinChannel(name, welcome!, { owner: 'carl' }), code('invalid_request'))
      const joined = await dora!.joinChannel(name, welcome!, { owner: carl!.fingerprint() })
      assert.equal(await dora!.joinChannel(name, welcome!), joined)
      assert.equal(dora!.channel(name), joined)
      await own.send('hello')
      assert.deepEqual(await take(joined, 1), ['hello'])

      // Its KeyPackage is used up, whoever else it was given to.
      const second = await carl!.createChannel('acme/joining/second')
      const late = await second.addMember(forDora)
      await assert.rejects(dora!.joinChannel('acme/joining/second', late), code('invalid_welcome'))
      assert.deepEqual(dora!.channels(), [joined])
    })

    await t.test('a Welcome used too late ends in removal, and the agent can be added again', async () => {
      const name = 'acme/joining/late'
      const [lena, mark] = await Promise.all(['lena', 'mark'].map((who) => world.agent(who)))
      const own = await lena!.createChannel(name)
      const welcome = await own.addMember(await mark!.generateKeyPackage())
      await own.send('for mark')
      await own.removeMember(mark!.agentId)
      await own.send('not for mark')
      assert.deepEqual(await rest(await mark!.joinChannel(name, welcome)), { payloads: ['for mark'], end: 'removed' })
      const again = await mark!.joinChannel(name, await own.addMember(await mark!.generateKeyPackage()))
      await again.send('in time')
      assert.deepEqual(await take(own, 1), ['in time'])
    })

    await t.test('a name stands for one channel', async () => {
      const name = 'acme/joining/name'
      const fay = await world.agent('fay')
      const stranger = await world.agent('stranger', { account: randomUUID() })
      const gus = await world.agent('gus')
      const own = await fay.createChannel(name)
      assert.equal(await fay.createChannel(name), own)
      const [one, two] = await Promise.all([fay.createChannel(`${name}s`), fay.createChannel(`${name}s`)])
      assert.equal(one, two)
      await assert.rejects(gus.createChannel(name), code('channel_exists'))
      assert.throws(() => gus.channel(name), code('not_found'))
      const joined = await gus.joinChannel(name, await own.addMember(await gus.generateKeyPackage()))
      await assert.rejects(gus.createChannel(name), code('channel_exists'))

      // Each account has names of its own.
      const theirs = await stranger.createChannel(name)
      assert.notEqual(theirs.id, own.id)
      const coming = nextOffer(gus)
      const welcome = await theirs.addMember(await gus.generateKeyPackage())
      await assert.rejects(gus.joinChannel(name, welcome), code('channel_exists'))
      const offer = await coming
      assert.equal(offer.owner, stranger.fingerprint())
      await assert.rejects(offer.accept(), code('channel_exists'))
      assert.equal(gus.channel(name), joined)
      await own.send('the first one stays')
      assert.deepEqual(await take(joined, 1), ['the first one stays'])
      await joined.leave()
      const accepted = await offer.accept()
      assert.equal(accepted.id, theirs.id)
    })

    await t.test('an agent added by its id accepts and gets all messages since', async () => {
      const name = 'acme/joining/by-id'
      const [hana, ivan, june] = await Promise.all(['hana', 'ivan', 'june'].map((who) => world.agent(who)))
      const [own, member] = await world.channel(hana!, [ivan!], name)
      await own!.send('before')
      const coming = nextOffer(june!)
      await member!.addMember(june!.agentId)
      for (let n = 0; n < 3; n++) await own!.send(`since ${n}`)
      const offer = await coming
      assert.deepEqual(
        { name: offer.name, channelId: offer.channelId, owner: offer.owner, addedBy: offer.addedBy },
        { name, channelId: own!.id, owner: hana!.fingerprint(), addedBy: ivan!.fingerprint() },
      )
      assert.deepEqual(june!.channels(), [])
      assert.throws(() => june!.channel(name), code('not_found'))
      await own!.rotate()
      await own!.send('since 3')
      const joined = await offer.accept()
      assert.equal(await offer.accept(), joined)
      assert.equal(june!.channel(name), joined)
      assert.deepEqual(await take(joined, 4), ['since 0', 'since 1', 'since 2', 'since 3'])
      await joined.send('accepted')
      assert.deepEqual(await take(own!, 1), ['accepted'])
      await agreed(joined, own!)
    })

    await t.test('an offer survives a restart and can be declined', async () => {
      const name = 'acme/joining/decline'
      const kurt = await world.agent('kurt', { chance: () => 0 })
      let lucy = await world.agent('lucy')
      const own = await kurt.createChannel(name)
      const coming = nextOffer(lucy)
      await own.addMember(lucy.agentId)
      await coming
      await lucy.close()
      await own.send('not for nobody')
      lucy = await world.agent('lucy')
      const offer = await nextOffer(lucy)
      assert.equal(offer.name, name)
      const removal = event(kurt, 'members_changed')
      await offer.decline()
      assert.deepEqual((await removal).removed, [lucy.agentId])
      assert.equal(own.members().length, 1)
      await assert.rejects(offer.accept(), code('invalid_welcome'))

      // Added while away, and once more after it declined.
      await lucy.close()
      await own.addMember(lucy.agentId)
      await own.send('hello lucy')
      lucy = await world.agent('lucy')
      const joined = await (await nextOffer(lucy)).accept()
      assert.deepEqual(await take(joined, 1), ['hello lucy'])
    })

    await t.test('offers and a Welcome passed by hand do not interfere with each other', async () => {
      const [nick, olga] = await Promise.all(['nick', 'olga'].map((who) => world.agent(who)))
      for (const round of [1, 2, 3]) {
        const name = `acme/joining/both-${round}`
        const own = await nick!.createChannel(name)
        const coming = nextOffer(olga!)
        const welcome = await own.addMember(await olga!.generateKeyPackage())
        const offer = await coming
        const [joined, accepted, waiting] = await Promise.all([
          olga!.joinChannel(name, welcome),
          offer.accept(),
          Promise.race([nextOffer(olga!), own.send('hello').then(() => undefined)]),
        ])
        assert.equal(joined, accepted)
        assert.ok(waiting === undefined || waiting.name === name)
        assert.deepEqual(await take(joined, 1), ['hello'])
      }
    })

    await t.test('an agent without a KeyPackage at the relay cannot be added by its id', async () => {
      const pete = await world.agent('pete')
      const visitor = await world.agent('visitor', { account: null })
      const own = await pete.createChannel('acme/joining/none')
      await assert.rejects(own.addMember(visitor.agentId), code('key_package_unavailable'))
      await assert.rejects(own.addMember('0'.repeat(64)), code('key_package_unavailable'))
      await assert.rejects(own.addMember('visitor'), code('invalid_request'))
      assert.equal(own.members().length, 1)
    })

    await t.test('the pool of KeyPackages is refilled', async () => {
      const rita = await world.agent('rita')
      const seth = await world.agent('seth')
      const own = await rita.createChannel('acme/joining/pool')
      await claimAll(own, seth.agentId)
      await claimAll(own, seth.agentId)
      // The relay keeps them in memory only.
      const back = [rita, seth].map((agent) => event(agent, 'connected'))
      await world.relay.restart()
      await Promise.all(back)
      await claimAll(own, seth.agentId)
      const coming = nextOffer(seth)
      await addOnceSupplied(own, seth.agentId)
      const joined = await (await coming).accept()
      await joined.send('at last')
      assert.deepEqual(await take(own, 1), ['at last'])
    })

    await t.test('known agents are recognized by their key', async () => {
      const [tess, ugo] = await Promise.all(['tess', 'ugo'].map((who) => world.agent(who)))
      const [own, joined] = await world.channel(tess!, [ugo!], 'acme/joining/twice')
      await assert.rejects(own!.addMember(await tess!.generateKeyPackage()), code('invalid_request', /already/))
      await assert.rejects(joined!.addMember(await tess!.generateKeyPackage()), code('invalid_request', /already/))
      assert.deepEqual(
        own!
          .members()
          .map(({ identity }) => text(identity))
          .toSorted(),
        ['tess', 'ugo'],
      )
    })
  })
}
