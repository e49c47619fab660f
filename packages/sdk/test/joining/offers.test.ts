/** Offers that nobody asked for: how many are kept, whose are taken, and who loses when there are too many. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { MAX_WELCOME_BYTES, parseChannelName, toHex } from '@static/protocol'
import { StaticClient } from '../../src/public/client.ts'
import {
  excessOffer,
  MAX_OFFER_BYTES,
  MAX_OFFERS,
  MAX_OFFERS_OF_ONE,
  type OfferPolicy,
} from '../../src/joining/offers.ts'
import { POOLED } from '../../src/agent/key-packages.ts'
import type { AgentChannel } from '../../src/channel/channel.ts'
import { agentIdOf } from '../../src/mls/index.ts'
import type { AgentStore } from '../../src/ports/index.ts'
import { Agent as MlsAgent, engine } from '../mls/support.ts'
import { delivering, fakeGroup } from '../support/fake-group.ts'
import { answering } from '../support/lying-relay.ts'
import { goOn, LyingSystem, RELAY } from '../support/lying-system.ts'
import { code, event } from '../support/test-system.ts'

interface Kept {
  readonly id: string
  readonly by: string
  readonly size: number
}

/** Lets offers come one after the other, and drops what is too much; gives what is left. */
function keep(coming: readonly (readonly [by: string, size: number])[]): Kept[] {
  let held: Kept[] = []
  const at = new Map<string, number>()
  for (const [time, [by, size]] of coming.entries()) {
    const id = `${time}`
    at.set(id, time)
    held.push({ id, by, size })
    for (;;) {
      const channels = held.map(({ id, by, size }) => ({
        id,
        state: 'offered',
        pendingWelcome: new Uint8Array(size),
        standing: { record: { addedBy: by, offeredAt: at.get(id) } },
      }))
      const excess = excessOffer(channels as unknown as AgentChannel[])
      if (!excess) break
      held = held.filter(({ id }) => id !== excess.id)
    }
  }
  return held
}

test('offers per adder are limited: its oldest are dropped', () => {
  const kept = keep([['ann', 1], ...Array.from({ length: 100 }, () => ['mallory', 1] as const)])
  const ofMallory = kept.filter(({ by }) => by === 'mallory')
  assert.deepEqual(
    ofMallory.map(({ id }) => Number(id)),
    Array.from({ length: MAX_OFFERS_OF_ONE }, (_, n) => 101 - MAX_OFFERS_OF_ONE + n),
  )
  assert.equal(kept.length, MAX_OFFERS_OF_ONE + 1)
})

test('offers are limited in total: the adder with the most loses first, and many adders with one each displace no one', () => {
  const many = Array.from({ length: 20 }, (_, n) => Array.from({ length: 20 }, () => [`m${n}`, 1] as const)).flat()
  const kept = keep([['ann', 1], ...many])
  assert.equal(kept.length, MAX_OFFERS)
  assert.ok(kept.some(({ by }) => by === 'ann'))
  const strangers = keep([['ann', 1], ...Array.from({ length: 1000 }, (_, n) => [`s${n}`, 1] as const)])
  assert.equal(strangers.length, MAX_OFFERS)
  assert.ok(strangers.some(({ by }) => by === 'ann'))
})

test('the bytes of offers are limited: the adder with the most bytes loses first', () => {
  const large = Array.from({ length: 200 }, (_, n) => [`m${n % 8}`, MAX_WELCOME_BYTES] as const)
  const kept = keep([['ann', 1000], ...large])
  assert.ok(kept.reduce((sum, { size }) => sum + size, 0) <= MAX_OFFER_BYTES)
  assert.ok(kept.length >= MAX_OFFER_BYTES / MAX_WELCOME_BYTES - 1)
  assert.ok(kept.some(({ by }) => by === 'ann'))
})

/** Bob, who takes these offers; what offers him a channel; and how many Welcomes wait for him. */
async function scene(
  t: TestContext,
  offers?: OfferPolicy,
  prepare: (world: LyingSystem, store: AgentStore) => Promise<void> = () => Promise.resolve(),
): Promise<{
  world: LyingSystem
  bob: StaticClient
  offer: (maker: MlsAgent, change?: (welcome: Uint8Array) => Uint8Array) => Promise<void>
  kept: () => { by: string | undefined; bytes: number }[]
}> {
  const world = LyingSystem.start(t)
  const parts = await world.parts('bob')
  await prepare(world, parts.store)
  const bob = await StaticClient.start({ ...parts, offers }, RELAY)
  t.after(() => bob.close())
  let made = 0
  return {
    world,
    bob,
    offer: async (maker, change = (welcome) => welcome) => {
      const name = parseChannelName(`mallory/offers/n${++made}`)
      const pretence = {
        channelId: new Uint8Array(randomBytes(16)),
        name,
        maker,
        victim: await bob.generateKeyPackage(),
      }
      const { welcome } = await fakeGroup(pretence)
      world.relay.welcomeTo(bob.agentId, delivering(pretence, change(welcome)))
      await world.relay.until(() => world.relay.unread(bob.agentId) === 0)
    },
    kept: () =>
      parts.store.load().channels.map(({ record, welcome }) => ({
        by: record.addedBy,
        bytes: welcome?.length ?? 0,
      })),
  }
}

test('an idle agent keeps a limited number of offers, in memory and on disk', async (t) => {
  const { bob, offer, kept } = await scene(t)
  const [ann, mallory] = [new MlsAgent('ann'), new MlsAgent('mallory')]
  const refusing = event(bob, 'welcome_refused')
  await offer(ann)
  for (let times = 0; times < MAX_OFFERS_OF_ONE + 3; times++) await offer(mallory)
  const { channel, error } = await refusing
  assert.deepEqual([channel, error.code], ['mallory/offers/n2', 'queue_full'])
  const by = kept().map(({ by }) => by)
  assert.equal(by.length, MAX_OFFERS_OF_ONE + 1)
  assert.ok(by.includes(toHex(ann.agentId)))
})

test('a Welcome that is too large is refused before it is parsed', async (t) => {
  const { bob, offer, kept } = await scene(t)
  const refusing = event(bob, 'welcome_refused')
  await offer(new MlsAgent('mallory'), () => new Uint8Array(MAX_WELCOME_BYTES + 1))
  const { error } = await refusing
  assert.ok(code('invalid_welcome', /131073 bytes/)(error))
  assert.deepEqual(kept(), [])
  await assert.rejects(
    bob.joinChannel('mallory/x/y', new Uint8Array(MAX_WELCOME_BYTES + 1)),
    code('invalid_welcome', /131073 bytes/),
  )
})

test('an agent that accepts no offers keeps none', async (t) => {
  const { bob, offer, kept } = await scene(t, 'none')
  const refusing = event(bob, 'welcome_refused')
  await offer(new MlsAgent('mallory'))
  assert.equal((await refusing).error.code, 'not_allowed')
  assert.deepEqual(kept(), [])
})

test('an agent that accepts offers from known agents accepts them from members of a common channel', async (t) => {
  const { world, bob, offer, kept } = await scene(t, 'known')
  const refusing = event(bob, 'welcome_refused')
  await offer(new MlsAgent('mallory'))
  assert.equal((await refusing).error.code, 'not_allowed')
  assert.deepEqual(kept(), [])
  const alice = await world.agent('alice')
  const { channels } = await world.channel([alice, bob])
  const other = await alice.createChannel('acme/support/other')
  const offers = bob.joins()
  const coming = offers.next()
  await other.addMember(await bob.generateKeyPackage())
  const { value } = await coming
  assert.equal(value?.addedBy, alice.fingerprint())
  await value.accept()
  await goOn(...channels)
})

test('a stranger that makes two Welcomes to its channel for one KeyPackage shuts out no one', async (t) => {
  const { world, bob, offer, kept } = await scene(t)
  const [ann, mallory] = [new MlsAgent('ann'), new MlsAgent('mallory')]
  const victim = await bob.generateKeyPackage()
  const channelId = new Uint8Array(randomBytes(16))
  const pretence = { channelId, name: parseChannelName('mallory/offers/twice'), victim, maker: mallory }
  for (const { welcome } of [await fakeGroup(pretence), await fakeGroup(pretence)]) {
    world.relay.welcomeTo(bob.agentId, delivering(pretence, welcome))
    await world.relay.until(() => world.relay.unread(bob.agentId) === 0)
  }
  await offer(ann)
  const by = kept().map(({ by }) => by)
  assert.deepEqual(by.sort(), [ann, mallory].map(({ agentId }) => toHex(agentId)).sort())
  // The first can still be accepted.
  const { value } = await bob.joins().next()
  assert.equal(value?.name, 'mallory/offers/twice')
})

test('an offer whose KeyPackage was used for another channel is dropped with the next offer, and shuts out no one', async (t) => {
  const { world, bob, offer, kept } = await scene(t)
  const alice = await world.agent('alice')
  const [ann, mallory] = [new MlsAgent('ann'), new MlsAgent('mallory')]
  const victim = await bob.generateKeyPackage()
  const channelId = new Uint8Array(randomBytes(16))
  const pretence = { channelId, name: parseChannelName('mallory/offers/dead'), victim, maker: mallory }
  world.relay.welcomeTo(bob.agentId, delivering(pretence, (await fakeGroup(pretence)).welcome))
  await world.relay.until(() => world.relay.unread(bob.agentId) === 0)
  const channel = await alice.createChannel('acme/support/other')
  const joined = await bob.joinChannel('acme/support/other', await channel.addMember(victim))
  await world.relay.until(() => world.relay.unread(bob.agentId) === 0)
  const refusing = event(bob, 'welcome_refused')
  await offer(ann)
  assert.deepEqual(new Set(kept().map(({ by }) => by)), new Set([undefined, toHex(ann.agentId)]))
  const { channel: dropped, error } = await refusing
  assert.deepEqual([dropped, error.code], ['mallory/offers/dead', 'invalid_welcome'])
  await goOn(channel, joined)
})

test('the KeyPackage of a pending offer is kept, however many the relay says are taken', async (t) => {
  const keyPackages: Uint8Array[] = []
  const { world, bob, offer, kept } = await scene(t, 'anyone', async ({ relay }, store) => {
    const { identity, publicKey, secretKey } = store.load().identity
    const now = Date.now()
    const { ref, ...made } = await engine.generateKeyPackage(identity, { publicKey, seed: secretKey }, now)
    const record = { ...made, ref: toHex(ref), createdAt: now - 1000, pooled: true }
    const other = { ...record, privatePart: new Uint8Array(32), createdAt: now }
    const others = Array.from({ length: 1023 }, (_, n) => ({ ...other, ref: `${n}` }))
    store.write([record, ...others].map((record) => ({ type: 'putKeyPackage', record })))
    keyPackages.push(made.keyPackage)
    relay.keyPackages.set(toHex(agentIdOf(publicKey)), Array(POOLED).fill(made.keyPackage))
  })
  const { relay } = world
  const ann = new MlsAgent('ann')
  const channelId = new Uint8Array(randomBytes(16))
  const pretence = { channelId, name: parseChannelName('mallory/offers/old'), victim: keyPackages[0]!, maker: ann }
  relay.welcomeTo(bob.agentId, delivering(pretence, (await fakeGroup(pretence)).welcome))
  await relay.until(() => relay.unread(bob.agentId) === 0)
  assert.equal(relay.requests(bob.agentId, 'uploadKeyPackage').length, 0)
  relay.push(bob.agentId, answering({ case: 'keyPackagesLow', value: { held: 0 } }))
  await relay.until(() => relay.requests(bob.agentId, 'uploadKeyPackage').length === 1)
  await offer(ann)
  assert.equal(kept().length, 2)
  const { value } = await bob.joins().next()
  assert.equal(value?.name, 'mallory/offers/old')
})
