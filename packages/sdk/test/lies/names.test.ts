/** A name means one channel, and no lie makes it unusable: two joins by one name, refusals at the wrong moment. */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { toHex } from '@static/protocol'
import type { AgentParts } from '../../src/agent/agent.ts'
import { inviteKeys } from '../../src/admitting/keys.ts'
import { decodeToken } from '../../src/admitting/token.ts'
import { StaticChannelManager } from '../../src/public/manager.ts'
import type { StoredChannel } from '../../src/ports/index.ts'
import { answering } from '../support/lying-relay.ts'
import { goOn, LyingSystem, RELAY } from '../support/lying-system.ts'
import { code, event, NAME } from '../support/test-system.ts'

/** The id that comes first. Who creates a channel chooses its id. */
const FIRST_ID = '00'.repeat(16)

/** Starts a manager of parts that a test has changed. */
async function start(t: TestContext, parts: AgentParts): Promise<StaticChannelManager> {
  const manager = await StaticChannelManager.start(parts, RELAY)
  t.after(() => manager.close())
  return manager
}

/** Parts of an agent whose first channel has a chosen id. */
async function choosing(world: LyingSystem, name: string): Promise<AgentParts> {
  const parts = await world.parts(name)
  let isChosen = false
  const random = (bytes: number): Uint8Array => {
    if (bytes !== FIRST_ID.length / 2 || isChosen) return parts.random(bytes)
    isChosen = true
    return new Uint8Array(bytes)
  }
  return { ...parts, random }
}

/** The ids of an agent's channels on its disk. */
function channelsOf({ stores }: LyingSystem, name: string): string[] {
  return stores
    .get(name)!
    .load()
    .channels.map(({ record }) => record.id)
}

test('a Welcome by token comes after the agent has joined another channel of that name: the name keeps its channel', async (t) => {
  const world = LyingSystem.start(t)
  const { relay } = world
  const alice = await world.manager('alice')
  const mallory = await start(t, await choosing(world, 'mallory'))
  const bob = await world.manager('bob', { disk: true })
  const { agentId } = bob.client
  assert.equal((await mallory.create(NAME)).id, FIRST_ID)
  const token = await mallory.invite(NAME, { maxUses: 2 })
  // Mallory lets bob wait.
  const handOut = relay.handOut.bind(relay)
  relay.handOut = () => {}
  const joining = assert.rejects(bob.joinWithToken(NAME, token), code('channel_exists', /another channel/))
  await relay.until(() => relay.joins.length === 1)
  const channel = await alice.create(NAME)
  await goOn(
    channel,
    await bob.client.joinChannel(NAME, await channel.addMember(await bob.client.generateKeyPackage())),
  )
  const refused = event(bob.client, 'welcome_refused')
  relay.handOut = handOut
  relay.handOut()
  await relay.until(() => relay.room(FIRST_ID).views.has(agentId) && relay.unread(agentId) === 0)
  assert.deepEqual(channelsOf(world, 'bob'), [channel.id])
  assert.equal((await refused).error.code, 'channel_exists')
  await joining
  await bob.close()
  const again = await world.manager('bob', { disk: true })
  const asked = relay.requests(agentId, 'requestJoin').length
  await goOn(channel, again.client.channel(NAME))
  assert.equal(relay.requests(agentId, 'requestJoin').length, asked, 'it asks for what it would refuse')
  // When the name is free, the token is as good as before.
  await again.client.channel(NAME).leave()
  await goOn(mallory.client.channel(NAME), await again.joinWithToken(NAME, token))
})

test('two channels of one name in the database: the name means neither until one is left', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.agent('alice')
  const bob = await world.agent('bob', { disk: true })
  const { channels } = await world.channel([alice, bob])
  await goOn(...channels)
  const store = world.stores.get('bob')!
  const [{ record }] = store.load().channels as [StoredChannel]
  store.write([{ type: 'putChannel', record: { ...record, id: FIRST_ID } }])
  await bob.close()
  const again = await world.agent('bob', { disk: true })
  assert.throws(() => again.channel(NAME), code('channel_exists', /two channels/))
  const [first] = again.channels()
  assert.equal(first!.id, FIRST_ID)
  await first!.leave()
  await goOn(channels[0]!, again.channel(NAME))
})

test('an offer that is being declined does not take the name from the channel that the agent has joined', async (t) => {
  const world = LyingSystem.start(t)
  const { relay } = world
  const [alice, mallory, bob] = await world.agents('alice', 'mallory', 'bob')
  await relay.until(() => (relay.keyPackages.get(bob.agentId)?.length ?? 0) > 0)
  const offers = bob.joins()
  await (await mallory.createChannel(NAME)).addMember(bob.agentId)
  const offer = (await offers.next()).value!
  const channel = await alice.createChannel(NAME)
  const joined = await bob.joinChannel(NAME, await channel.addMember(await bob.generateKeyPackage()))
  relay.answer = (_agent, asked, honest) => (asked.case === 'leave' ? undefined : honest())
  offer.decline().catch(() => {})
  await relay.until(() => relay.requests(bob.agentId, 'leave').length > 0)
  assert.equal(bob.channel(NAME), joined)
  await goOn(channel, bob.channel(NAME))
})

test('a refusal while the Welcome is checked: the agent does not enter, and the same token lets it in later', async (t) => {
  const world = LyingSystem.start(t)
  const { relay } = world
  const alice = await world.manager('alice')
  const channel = await alice.create(NAME)
  const token = await alice.invite(NAME, { maxUses: 5 })
  const { inviteId } = inviteKeys(decodeToken(token).secret)
  const parts = await world.parts('bob')
  let joining: Promise<unknown> | undefined
  const join: typeof parts.engine.join = async (...args) => {
    const joined = await parts.engine.join(...args)
    const refused = joining
    joining = undefined
    if (refused) relay.push(agentId, answering({ case: 'joinAnswered', value: { inviteId, code: 'group_full' } }))
    await refused?.catch(() => {})
    return joined
  }
  const bob = await start(t, { ...parts, engine: { ...parts.engine, join } })
  const { agentId } = bob.client
  joining = bob.joinWithToken(NAME, token)
  await assert.rejects(joining, code('group_full'))
  await relay.until(() => relay.unread(agentId) === 0)
  assert.deepEqual(channelsOf(world, 'bob'), [])
  await goOn(channel, await bob.joinWithToken(NAME, token))
})

test('an agent that has entered a channel and lost the attempt leaves it when it starts, and can join again', async (t) => {
  const world = LyingSystem.start(t)
  const { relay } = world
  const alice = await world.manager('alice')
  const bob = await world.manager('bob', { disk: true })
  const { agentId } = bob.client
  const channel = await alice.create(NAME)
  const room = relay.room(channel.id)
  const token = await alice.invite(NAME, { maxUses: 5 })
  // He is shown nothing after the commit that adds him, so he is not greeted.
  const commits = room.commit.bind(room)
  room.commit = (sender, request) => {
    const welcomes = commits(sender, request)
    if (welcomes.length > 0) room.view(agentId).lie = () => []
    return welcomes
  }
  bob.joinWithToken(NAME, token).catch(() => {})
  await relay.until(() => relay.requests(agentId, 'sendMessage').length > 0)
  const invite = toHex(inviteKeys(decodeToken(token).secret).inviteId)
  world.stores.get('bob')!.write([{ type: 'dropAttempt', invite }])
  await bob.close()
  room.commit = commits
  const again = await world.manager('bob', { disk: true })
  // By then the relay has what the agent asks at its start.
  await again.create('acme/support/other')
  assert.equal(relay.requests(agentId, 'leave').length, 1)
  await goOn(channel, await again.joinWithToken(NAME, token))
})

for (const isLasting of [false, true]) {
  const what = isLasting ? 'is left alone until the application deletes it' : 'is replaced'
  test(`a channel that breaks while it is created, by a lie ${isLasting ? 'that lasts' : 'of a moment'}, ${what}`, async (t) => {
    const world = LyingSystem.start(t)
    const { relay } = world
    const bob = await world.agent('bob', { disk: true })
    let isLying = true
    relay.answer = (_agent, asked, honest) => {
      const answer = honest()
      const [state] = answer?.case === 'resume' ? answer.value.channels : []
      // Bob has sent nothing.
      if (isLying && state && asked.case === 'resume') state.lastCounter = 7n
      return answer
    }
    await assert.rejects(bob.createChannel(NAME), code('store_rolled_back'))
    const broken = relay.room().channelId
    await bob.close()
    isLying = isLasting
    const again = await world.agent('bob', { disk: true })
    if (isLasting) {
      await assert.rejects(again.createChannel(NAME), code('store_rolled_back', /was used/))
      assert.deepEqual(relay.room().channelId, broken)
      await again.channel(NAME).delete()
      isLying = false
    }
    const channel = await again.createChannel(NAME)
    assert.notEqual(channel.id, toHex(broken))
    assert.deepEqual([...relay.rooms.keys()], [channel.id])
    const alice = await world.agent('alice')
    await goOn(channel, await alice.joinChannel(NAME, await channel.addMember(await alice.generateKeyPackage())))
  })
}
