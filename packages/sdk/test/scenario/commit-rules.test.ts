import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticClient } from '../../src/public/client.ts'
import { channelOf } from '../mls/support.ts'
import { bare, FORBIDDEN, type Forged, type Scene, type Victim } from '../mls/forbidden-commits.ts'
import { Mallory } from '../support/mallory.ts'
import {
  code as refusedWith,
  event,
  NAME,
  take,
  takeEnvelope,
  waysFor,
  type Way,
  TestSystem,
} from '../support/test-system.ts'
import { Refused } from '@static/testkit/agent'

const SETTINGS = {
  rates: { commitsPerSecond: 1000, guestCommitsPerSecond: 1000, channelCommitsPerSecond: 1000 },
  session: { pingMs: 1000, pongMs: 1000 },
}
const DAY = 86_400_000
const NAMES = ['owner', 'bob', 'carol'] as const

/** What the relay refuses by what is declared, and what the members find when it is not declared. */
const NOT_AS_DECLARED: Readonly<Record<string, readonly [code: string, reason: string]>> = {
  'a second leaf with the signature key of a member': ['invalid_request', 'signature_key_twice'],
  'the owner is removed': ['not_allowed', 'removes_owner'],
  'the owner is removed with a notice of its own': ['invalid_request', 'removes_owner'],
  'a member removes another': ['not_allowed', 'removes_without_right'],
  'a notice that the leaver did not sign': ['invalid_request', 'removes_without_right'],
  'a notice for another channel': ['invalid_request', 'removes_without_right'],
  'a notice for another leaf than the leaver has': ['invalid_request', 'removes_without_right'],
  'a notice that names more leaves than one can have': ['invalid_request', 'removes_without_right'],
  'a vouch by a member that is not the owner': ['invalid_request', 'declaration_differs'],
  'the same GroupContext once more, by a member that may not change it': ['not_allowed', 'ownership_without_right'],
  'a member makes itself the owner': ['not_allowed', 'ownership_without_right'],
  'a member makes itself the standby': ['not_allowed', 'ownership_without_right'],
  'a member gives the channel to another': ['not_allowed', 'ownership_without_right'],
  'the channel takes another name': ['not_allowed', 'context_invalid'],
  'a new owner in the declaration alone': ['not_allowed', ''],
  'a standby in the declaration alone': ['not_allowed', ''],
  // Nothing is left to find: an empty commit that declares nothing. It is declared with a stranger below.
  'a declared Add that the commit does not have': ['invalid_request', ''],
}

/** More that no member takes. */
const MORE: readonly (readonly [string, string, (scene: Scene) => Promise<Forged>])[] = [
  ['random bytes', 'not_a_commit', () => Promise.resolve({ commit: new Uint8Array(randomBytes(300)) })],
  ['one byte', 'not_a_commit', () => Promise.resolve({ commit: new Uint8Array(1) })],
  [
    'a commit with a bit changed',
    'undecryptable',
    async ({ ann }) => {
      const commit = await bare(ann, [])
      return { commit: commit.with(commit.length - 1, (commit.at(-1) ?? 0) ^ 1) }
    },
  ],
  [
    'a commit of another group',
    'other_group',
    async () => ({ commit: await bare((await channelOf('eve')).agents[0]!, []) }),
  ],
  [
    'a stranger who is declared and not added',
    'declaration_differs',
    async ({ ann }) => ({ commit: await bare(ann, []), declaration: { adds: [new Uint8Array(randomBytes(32))] } }),
  ],
]

/** Three honest agents and mallory in one channel. */
class Scenario {
  readonly clients: StaticClient[] = []
  readonly channels: Channel[] = []
  readonly victims: Victim[] = []
  readonly mallory: Mallory
  readonly world: TestSystem

  private constructor(world: TestSystem, mallory: Mallory) {
    this.world = world
    this.mallory = mallory
  }

  static async start(t: TestContext, way: Way, clocks: readonly (() => number)[] = []): Promise<Scenario> {
    const world = await TestSystem.start(t, way, { settings: SETTINGS })
    const scenario = new Scenario(world, await Mallory.connect(world))
    const { clients, victims, mallory } = scenario
    for (const [at, name] of NAMES.entries()) {
      const client = await world.agent(name, {
        now: clocks[at] ?? Date.now,
        store: (store) => {
          const { publicKey, secretKey } = store.load().identity
          victims[at] = { agentId: new Uint8Array(), key: { publicKey, seed: Uint8Array.from(secretKey) } }
          return store
        },
      })
      clients.push(client)
      victims[at] = { ...victims[at]!, agentId: Buffer.from(client.agentId, 'hex') }
    }
    const [owner, bob, carol] = clients as [StaticClient, StaticClient, StaticClient]
    const channel = await owner.createChannel(NAME)
    const own = await mallory.mls.keyPackage()
    const keyPackages = [await bob.generateKeyPackage(), await carol.generateKeyPackage(), own.keyPackage]
    const welcomes = await channel.addMembers(keyPackages)
    scenario.channels.push(channel)
    for (const [at, client] of [bob, carol].entries()) {
      scenario.channels.push(await client.joinChannel(NAME, welcomes[at]!))
    }
    await mallory.join(Buffer.from(channel.id, 'hex'), welcomes[2]!, own)
    await scenario.goOn('ready')
    return scenario
  }

  get scene(): Scene {
    const [owner, bob] = this.victims as [Victim, Victim]
    return { channelId: this.mallory.channelId, ann: this.mallory.mls, owner, bob }
  }

  /** Everybody leaves this commit out, for this reason, and nothing else changes; the owner lifts the bar, or not. */
  async skipped({ commit, declaration }: Forged, reason: string, bar: 'lifted' | 'kept' = 'lifted'): Promise<void> {
    const { mallory, clients, channels } = this
    const rejected = event(clients[0]!, 'commit_rejected')
    const told = clients.map((client) => event(client, 'commit_skipped'))
    await mallory.commit(commit, declaration)
    const sender = Buffer.from(mallory.mls.agentId).toString('hex')
    const slot = Number(mallory.head)
    for (const skipped of await Promise.all(told)) {
      assert.deepEqual(skipped, { type: 'commit_skipped', channel: NAME, sender, slot, reason })
    }
    mallory.head++
    assert.equal((await rejected).sender, sender)
    if (bar === 'lifted') await channels[0]!.liftBar(sender)
    assert.equal(new Set(channels.map((channel) => channel.verify())).size, 1)
  }

  /** An honest commit and honest messages; returns the epoch. */
  async goOn(words: string): Promise<number> {
    const [a, b, c] = this.channels as [Channel, Channel, Channel]
    await b.rotate()
    await Promise.all([a.send(`${words} a`), c.send(`${words} c`)])
    const { epoch } = await takeEnvelope(b)
    await take(b, 1)
    assert.deepEqual([await take(a, 1), await take(c, 1)], [[`${words} c`], [`${words} a`]])
    await this.mallory.follow(epoch)
    assert.equal(new Set(this.channels.map((channel) => channel.verify())).size, 1)
    return epoch
  }
}

for (const way of waysFor('quic')) {
  test(`forbidden commits are skipped by every member, and the channel continues, ${way}`, async (t) => {
    const scenario = await Scenario.start(t, way)
    const { mallory } = scenario
    let epoch = Number(mallory.mls.epoch)
    for (const [name, reason, forge] of [...FORBIDDEN, ...MORE]) {
      const forged = await forge(scenario.scene)
      const { commit, declaration, declarer } = forged
      const [code, hidden] = NOT_AS_DECLARED[name] ?? []
      // Only a lying relay can pass on what another has declared.
      if (declarer) continue
      if (code === undefined) await scenario.skipped(forged, reason)
      else
        await assert.rejects(
          mallory.commit(commit, declaration),
          (error) => error instanceof Refused && error.code === code,
        )
      if (hidden) await scenario.skipped({ commit }, hidden)
      // The honest commit, and nothing of the forbidden one.
      assert.equal(await scenario.goOn(name), ++epoch, name)
    }
    const old = await bare(mallory.mls, [])
    await scenario.goOn('the epoch of the old commit is over')
    await scenario.skipped({ commit: old }, 'other_epoch')
    // Who has broken the rules may still keep them.
    const pending = await mallory.mls.commit()
    await mallory.commit(pending.commit, pending.declaration)
    mallory.mls.adopt(pending)
    assert.equal(await scenario.goOn('mallory commits'), epoch + 3)
  })
}

test('members with different clocks and pins accept and skip the same commits', async (t) => {
  let skewed = false
  const clocks = [0, 200 * DAY, -200 * DAY].map((skew) => () => Date.now() + (skewed ? skew : 0))
  const scenario = await Scenario.start(t, 'grpc', clocks)
  const { clients, channels, world } = scenario
  const [owner, bob, carol] = channels as [Channel, Channel, Channel]
  // The owner and bob knew dan by another key, since both have added him, carol did not.
  const dan = await world.agent('dan')
  await world.channel(clients[0]!, [clients[1]!, dan], 'acme/support/other')
  const [, bobs] = await world.channel(clients[0]!, [clients[1]!], 'acme/support/third')
  await bobs!.addMember(dan.agentId)
  skewed = true
  // What is due by the new clock has happened before this is read.
  await bob.send('now')
  assert.deepEqual([await take(owner, 1), await take(carol, 1)], [['now'], ['now']])
  const changed = event(clients[1]!, 'identity_changed')
  const another = await world.agent('another', { storeOptions: { identity: Buffer.from('dan') } })
  const keyPackage = await another.generateKeyPackage()
  await assert.rejects(owner.addMember(keyPackage), { code: 'identity_changed' })
  const joined = await another.joinChannel(NAME, await owner.addMember(keyPackage, { acceptNewKey: true }))
  assert.deepEqual([(await changed).known, (await changed).now], [dan.agentId, another.agentId])
  await scenario.goOn('joined')
  for (const channel of [owner, bob, carol]) await channel.rotate()
  await scenario.goOn('rotated')
  await take(joined, 4)
  const [, reason, forge] = FORBIDDEN[0]!
  await scenario.skipped(await forge(scenario.scene), reason, 'kept')
  await assert.rejects(
    scenario.mallory.commit(new Uint8Array(9)),
    (error) => error instanceof Refused && error.code === 'not_allowed',
  )
  await scenario.goOn('without mallory')
  await take(joined, 2)
  assert.equal(joined.verify(), owner.verify())
})

for (const way of waysFor('grpc')) {
  test(`the owner's agent automatically rejects a skipped commit: its sender cannot commit until the bar is lifted, ${way}`, async (t) => {
    const { clients, channels, mallory } = await Scenario.start(t, way)
    const [owner, bob] = channels as [Channel, Channel, Channel]
    const member = Buffer.from(mallory.mls.agentId).toString('hex')
    const junk = new Uint8Array(randomBytes(300))
    const skipping = event(clients[0]!, 'commit_skipped')
    const rejected = clients.map((client) => event(client, 'commit_rejected'))
    await mallory.commit(junk)
    const { slot, sender } = await skipping
    assert.deepEqual([slot, sender], [Number(mallory.head++), member])
    for (const told of await Promise.all(rejected)) assert.equal(told.sender, member)
    const barred = (error: unknown): boolean => error instanceof Refused && error.code === 'not_allowed'
    await assert.rejects(mallory.commit(junk), barred)
    await assert.rejects(bob.liftBar(member), refusedWith('not_allowed'))
    await assert.rejects(mallory.commit(junk), barred)
    await assert.rejects(owner.rejectCommit(slot + 1000), refusedWith('not_found'))
    await owner.liftBar(member)
    const again = event(clients[1]!, 'commit_skipped')
    await mallory.commit(junk)
    assert.deepEqual([(await again).slot, (await again).sender], [slot + 1, member])
    await owner.send('on')
    assert.deepEqual(await take(bob, 1), ['on'])
  })
}
