/** Strangers who know the id of a channel, and want to be taken for it. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { parseChannelName, toHex } from '@static/protocol'
import { inviteKeys, welcomeTag } from '../../src/admitting/keys.ts'
import { openRequest } from '../../src/joining/request.ts'
import { encodeToken } from '../../src/admitting/token.ts'
import { Agent as MlsAgent, engine } from '../mls/support.ts'
import { delivering, fakeGroup } from '../support/fake-group.ts'
import { answering } from '../support/lying-relay.ts'
import { goOn, LyingSystem, RELAY } from '../support/lying-system.ts'
import { code, event, NAME } from '../support/test-system.ts'
import { scene } from './scene.ts'

const EVIL = parseChannelName('mallory/x/y')

test('a Welcome under another name into a group with the id of an existing channel: refused, and that channel continues', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const [, bob] = clients
  const { channelId } = room
  const { welcome, mallory } = await fakeGroup({ channelId, name: EVIL, victim: await bob.generateKeyPackage() })
  const before = bob.channel(NAME)
  const state = [before.verify(), before.members(), before.owner]
  const owner = toHex(mallory.agentId)
  await assert.rejects(bob.joinChannel(EVIL, welcome, { owner }), code('channel_exists'))
  assert.throws(() => bob.channel(EVIL), code('not_found'))
  assert.equal(bob.channel(NAME), before)
  assert.deepEqual([before.verify(), before.members(), before.owner], state)
  await goOn(...channels)
  await world.agree(room, channels, ids)
  const { record } = world.stores.get('bob')!.load().channels[0]!
  assert.deepEqual([record.id, record.name, record.state], [channels[0].id, NAME, 'joined'])
})

test('an invite token under another name with the id of an existing channel: refused before any request', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.agent('alice')
  const bob = await world.manager('bob')
  const { room, channels } = await world.channel([alice, bob.client])
  const { agentId: owner } = new MlsAgent('mallory')
  const secret = new Uint8Array(randomBytes(32))
  const expiresAt = Date.now() + 3_600_000
  const token = encodeToken({
    admit: 'owner',
    secret,
    owner,
    channelId: room.channelId,
    name: EVIL,
    relay: RELAY,
    expiresAt,
  })
  await assert.rejects(bob.joinWithToken(EVIL, token), code('channel_exists'))
  assert.deepEqual(world.relay.requests(bob.client.agentId, 'requestJoin'), [])
  assert.deepEqual(
    bob.channels().map(({ name }) => name),
    [NAME],
  )
  await goOn(...channels)
})

test('a token for a channel that bob meanwhile joins under its real name: its Welcome is refused', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.agent('alice')
  const bob = await world.manager('bob')
  const channel = await alice.createChannel(NAME)
  const { channelId } = world.relay.room(channel.id)
  // The maker of the token is the owner that it names.
  const secret = new Uint8Array(randomBytes(32))
  const keys = inviteKeys(secret)
  const maker = new MlsAgent('mallory')
  const expiresAt = Date.now() + 3_600_000
  const place = { channelId, name: EVIL, owner: maker.agentId }
  const token = encodeToken({ ...place, admit: 'owner', secret, relay: RELAY, expiresAt })
  world.relay.answer = (_agent, asked, honest) =>
    asked.case === 'requestJoin' ? answering({ case: 'requestJoin', value: {} }) : honest()
  const joining = bob.joinWithToken(EVIL, token)
  joining.catch(() => {})
  await world.relay.until(() => world.relay.requests(bob.client.agentId, 'requestJoin').length === 1)
  const box = Uint8Array.from(world.relay.requests(bob.client.agentId, 'requestJoin')[0]!.box)
  const keyPackage = await bob.client.generateKeyPackage()
  const joined = await bob.client.joinChannel(NAME, await channel.addMember(keyPackage))
  const { keyPackage: victim } = openRequest(keys, place, box)!
  const pretence = { channelId, name: EVIL, victim, maker, invite: keys }
  const { welcome, mallory } = await fakeGroup(pretence)
  const tag = welcomeTag(keys, victim, welcome, engine.facts(mallory.group).epochAuthenticator)
  const telling = event(bob.client, 'welcome_refused')
  const delivered = delivering(pretence, welcome, { inviteId: keys.inviteId, tag })
  world.relay.push(bob.client.agentId, { case: 'deliverWelcome', value: delivered })
  assert.equal((await telling).error.code, 'channel_exists')
  await assert.rejects(joining, code('channel_exists'))
  assert.deepEqual(
    world.stores
      .get('bob')!
      .load()
      .channels.map(({ record }) => record.name),
    [NAME],
  )
  await goOn(channel, joined)
})

test('one KeyPackage allows one offer, however many Welcomes are created for it', async (t) => {
  const world = LyingSystem.start(t)
  const bob = await world.agent('bob')
  const victim = await bob.generateKeyPackage()
  const refused = event(bob, 'welcome_refused')
  for (const name of ['mallory/x/one', 'mallory/x/two'].map(parseChannelName)) {
    const pretence = { channelId: new Uint8Array(randomBytes(16)), name, victim }
    const { welcome } = await fakeGroup(pretence)
    world.relay.welcomeTo(bob.agentId, delivering(pretence, welcome))
  }
  const { channel, error } = await refused
  assert.deepEqual([channel, error.code], ['mallory/x/two', 'invalid_welcome'])
  await world.relay.until(() => world.relay.unread(bob.agentId) === 0)
  const stored = world.stores.get('bob')!.load().channels
  assert.deepEqual(
    stored.map(({ record }) => [record.name, record.state]),
    [['mallory/x/one', 'offered']],
  )
})
