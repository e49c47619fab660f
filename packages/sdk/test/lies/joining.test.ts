import assert from 'node:assert/strict'
import { createCipheriv, randomBytes } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { fromHex, parseChannelName, type StaticError, toHex } from '@static/protocol'
import { GapNoticeSchema } from '@static/protocol/relay'
import type { Channel } from '../../src/public/channel.ts'
import type { StaticClient } from '../../src/public/client.ts'
import { openRequest } from '../../src/joining/request.ts'
import { type InviteKeys, inviteKeys, joinTag, welcomeTag } from '../../src/admitting/keys.ts'
import { decodeToken, encodeToken } from '../../src/admitting/token.ts'
import type { StaticChannelManager } from '../../src/public/manager.ts'
import { Agent as MlsAgent, engine } from '../mls/support.ts'
import { delivering, fakeGroup, type Pretence } from '../support/fake-group.ts'
import { answering, refusing } from '../support/lying-relay.ts'
import { type Entry, Room, View, wired } from '../support/lying-room.ts'
import { goOn, LyingSystem, makeCanary } from '../support/lying-system.ts'
import { code, event, NAME, take } from '../support/test-system.ts'

const CHANNEL = parseChannelName(NAME)
/** Long enough for everything that happens before it is over. */
const SOON = 0.7

interface Scene {
  readonly world: LyingSystem
  readonly alice: StaticChannelManager
  readonly bob: StaticChannelManager
  readonly room: Room
}

/** Alice owns a channel, bob has nothing yet but KeyPackages at the relay, as she has. */
async function scene(t: TestContext): Promise<Scene> {
  const world = LyingSystem.start(t)
  const [alice, bob] = [await world.manager('alice'), await world.manager('bob')]
  const { id } = await alice.create(NAME)
  await world.relay.until(() => [alice, bob].every(({ client }) => pooled(world, client) !== undefined))
  return { world, alice, bob, room: world.relay.room(id) }
}

/** A KeyPackage that the relay holds for others. */
function pooled({ relay }: LyingSystem, { agentId }: StaticClient): Uint8Array | undefined {
  return relay.keyPackages.get(agentId)?.[0]
}

/** What the relay pretends to bob: alice's channel, with her real KeyPackage in it. */
function pretenceOf({ world, alice, bob, room }: Scene): Pretence & { readonly owner: { agentId: Uint8Array } } {
  const owner = { agentId: fromHex(alice.client.agentId), keyPackage: pooled(world, alice.client)! }
  return { channelId: room.channelId, name: CHANNEL, owner, victim: pooled(world, bob.client)! }
}

/** Delivers a Welcome to bob, as one to a channel that the relay says he is in. */
function deliverTo({ world, bob }: Scene, pretence: Pretence, delivered: ReturnType<typeof delivering>): void {
  const id = toHex(pretence.channelId)
  const { agentId } = bob.client
  const room = world.relay.rooms.get(id) ?? new Room(pretence.channelId, pretence.name, agentId)
  world.relay.rooms.set(id, room)
  const { index, hash, slot } = delivered.position!
  room.views.set(agentId, new View({ index: Number(index), hash, slot: Number(slot) }))
  world.relay.welcomeTo(agentId, delivered)
}

/** Bob has asked by a token, and alice is not told. */
async function asking(
  scene: Scene,
  admit: 'owner' | 'members' = 'owner',
): Promise<{ token: string; keys: InviteKeys; joining: Promise<unknown> }> {
  const { alice, bob, world } = scene
  const token = await alice.invite(NAME, { admit })
  const handOut = world.relay.handOut.bind(world.relay)
  world.relay.handOut = () => {}
  const joining = bob.joinWithToken(NAME, token)
  joining.catch(() => {})
  await world.relay.until(() => world.relay.joins.length === 1)
  world.relay.handOut = handOut
  return { token, keys: inviteKeys(decodeToken(token).secret), joining }
}

/** The relay does what it should have done: alice is told, and bob comes in by the same token. */
async function honestAfterAll({ world, alice, bob }: Scene, token: string): Promise<void> {
  const canary = makeCanary()
  const joining = bob.joinWithToken(NAME, token)
  world.relay.handOut()
  const channel = await joining
  await alice.send(NAME, canary)
  assert.deepEqual(await take(channel, 1), [canary])
  await goOn(alice.client.channel(NAME), channel)
  assert.equal(world.relay.sawPlaintext(canary), false)
}

test('7 a join request is answered only for its sender', async (t) => {
  const place = await scene(t)
  const { world, alice, room } = place
  const { token, keys } = await asking(place)
  const [{ inviteId, box }] = world.relay.joins as [(typeof world.relay.joins)[0]]
  const [asked] = world.relay.requests(alice.client.agentId, 'registerInvite')
  const mallory = new MlsAgent('mallory')
  const { keyPackage } = await mallory.keyPackage()
  // The relay has the invite's id and its admission key, and neither opens or seals a box.
  const known = { ...keys, box: asked!.admissionKey, join: asked!.admissionKey }
  const nonce = new Uint8Array(randomBytes(16))
  const owner = fromHex(room.owner)
  const tag = joinTag(known, { channelId: room.channelId, name: NAME, owner }, nonce, keyPackage)
  const boxes = [
    box,
    sealed(known, Buffer.concat([nonce, tag, keyPackage])),
    box.with(60, box[60]! ^ 1),
    box.slice(0, 20),
    new Uint8Array(),
  ]
  for (const forged of boxes) {
    world.relay.joins.unshift({ inviteId, agentId: mallory.agentId, box: forged })
  }
  world.relay.handOut()
  await world.relay.until(() => world.relay.requests(alice.client.agentId, 'answerJoin').length === boxes.length)
  for (const answer of world.relay.requests(alice.client.agentId, 'answerJoin')) {
    assert.deepEqual([toHex(answer.agentId), answer.code], [toHex(mallory.agentId), 'invite_invalid'])
  }
  await honestAfterAll(place, token)
  assert.equal(alice.client.channel(NAME).members().length, 2)
})

test('7 another KeyPackage in place of the one asked for by agent id', async (t) => {
  const { world, alice, bob, room } = await scene(t)
  const { keyPackage } = await new MlsAgent('bob').keyPackage()
  world.relay.answer = (_agent, asked, honest) =>
    asked.case === 'addMember' ? answering({ case: 'addMember', value: { keyPackage } }) : honest()
  const entries = room.log.length
  const channel = alice.client.channel(NAME)
  await assert.rejects(channel.addMember(bob.client.agentId), code('invalid_request', /another agent/))
  assert.equal(room.log.length, entries)
  world.relay.answer = (_agent, _asked, honest) => honest()
  const offered = bob.client.joins().next()
  await channel.addMember(bob.client.agentId)
  await goOn(channel, await (await offered).value!.accept())
})

test('8 a Welcome into a fake group while bob waits to join: refused', async (t) => {
  const place = await scene(t)
  const { world, alice, bob } = place
  const { token, keys, joining } = await asking(place)
  const { admissionKey } = world.relay.requests(alice.client.agentId, 'registerInvite')[0]!
  const pretence = pretenceOf(place)
  const { welcome, mallory } = await fakeGroup(pretence)
  const { epochAuthenticator } = engine.facts(mallory.group)
  const tag = welcomeTag({ ...keys, welcome: admissionKey }, pretence.victim, welcome, epochAuthenticator)
  const telling = event(bob.client, 'welcome_refused')
  const { inviteId } = keys
  deliverTo(place, pretence, delivering(pretence, welcome, { inviteId, tag }))
  assert.equal((await telling).error.code, 'invalid_welcome')
  assert.throws(() => bob.client.channel(NAME), code('not_found'))
  // It was not for what bob has asked, which goes on.
  await honestAfterAll(place, token)
  await joining
})

test('8 of two tokens the relay passes on the request of the second alone, and names the first: bob joins by the second', async (t) => {
  const place = await scene(t)
  const { world, alice, bob } = place
  const { keys, joining } = await asking(place)
  const handOut = world.relay.handOut.bind(world.relay)
  world.relay.handOut = () => {}
  const second = bob.joinWithToken(NAME, await alice.invite(NAME))
  await world.relay.until(() => world.relay.joins.length === 2)
  world.relay.joins.shift()
  world.relay.welcome = (delivered) => {
    delivered.welcome!.inviteId = keys.inviteId
    return delivered
  }
  world.relay.handOut = handOut
  handOut()
  assert.equal(await second, await joining)
  await goOn(alice.client.channel(NAME), await second)
})

for (const admit of ['owner', 'members'] as const) {
  test(`8 a Welcome into another channel names the invite that bob waits for (${admit}): he joins with the same request`, async (t) => {
    const place = await scene(t)
    const { world, bob } = place
    const { token, keys, joining } = await asking(place, admit)
    const { agentId } = bob.client
    const channelId = new Uint8Array(randomBytes(16))
    const pretence = { channelId, name: parseChannelName('mallory/x/y'), victim: pooled(world, bob.client)! }
    const { welcome } = await fakeGroup(pretence)
    const { inviteId } = keys
    const offered = bob.client.joins().next()
    world.relay.welcomeTo(agentId, delivering(pretence, welcome, { inviteId, tag: new Uint8Array(32) }))
    // Joining does not end before that.
    const first = await Promise.race([offered, joining])
    assert.equal((first as Awaited<typeof offered>).value?.name, 'mallory/x/y')
    // One that names it in its own head is no offer either.
    const other = { ...pretence, victim: pooled(world, bob.client)!, invite: { ...keys, seal: new Uint8Array(32) } }
    other.channelId = new Uint8Array(randomBytes(16))
    const refused = event(bob.client, 'welcome_refused')
    world.relay.welcomeTo(agentId, delivering(other, (await fakeGroup(other)).welcome))
    const { error } = (await Promise.race([refused, joining])) as Awaited<typeof refused>
    assert.match(error.message, /is for a join by invite/)
    const [box] = world.relay.requests(agentId, 'requestJoin').map((request) => Uint8Array.from(request.box))
    await honestAfterAll(place, token)
    await joining
    const where = { channelId: world.relay.room().channelId, name: NAME, owner: fromHex(world.relay.room().owner) }
    const boxes = world.relay.requests(agentId, 'requestJoin').map((request) => request.box)
    for (const other of boxes) assert.deepEqual(openRequest(keys, where, other), openRequest(keys, where, box!))
  })
}

test('8 a Welcome into a fake group, passed by hand or offered: refused unless the named owner signed it', async (t) => {
  const place = await scene(t)
  const { alice, bob } = place
  const pretence = { ...pretenceOf(place), channelId: new Uint8Array(randomBytes(16)) }
  const { welcome } = await fakeGroup(pretence)
  const telling = event(bob.client, 'welcome_refused')
  deliverTo(place, pretence, delivering(pretence, welcome))
  assert.equal((await telling).error.code, 'invalid_welcome')
  const owner = alice.client.agentId
  await assert.rejects(bob.client.joinChannel(NAME, welcome, { owner }), code('invalid_welcome', /confirmed/))
  // Nothing of it waits: the next offer is a true one.
  const offered = bob.client.joins().next()
  const channel = alice.client.channel(NAME)
  await channel.addMember(bob.client.agentId)
  const offer = (await offered).value!
  assert.equal(offer.channelId, channel.id)
  await goOn(channel, await offer.accept())
})

test('9 a stale Welcome: the application gets no channel until the owner answers in this epoch', async (t) => {
  const place = await scene(t)
  const { world, alice, bob, room } = place
  const channel = alice.client.channel(NAME)
  const token = await alice.invite(NAME)
  // Bob is shown the commit that added him and nothing after it.
  const withheld: Entry[] = []
  const commits = room.commit.bind(room)
  room.commit = (sender, request) => {
    const welcomes = commits(sender, request)
    if (welcomes.length > 0) {
      room.view(bob.client.agentId).lie = (entry) => {
        withheld.push(entry)
        return []
      }
    }
    return welcomes
  }
  const failing = event(alice.client, 'decryption_failure')
  const joining = bob.joinWithToken(NAME, token, SOON)
  joining.catch(() => {})
  // Alice's re-key after her first add makes the Welcome stale.
  assert.equal((await failing).sender, bob.client.agentId)
  await assert.rejects(joining, code('join_timeout'))
  assert.throws(() => bob.client.channel(NAME), code('not_found'))
  const canary = makeCanary()
  await channel.send(canary)
  // The relay tells the truth: bob follows, and says hello again.
  const view = room.view(bob.client.agentId)
  view.lie = undefined
  view.show(...withheld)
  world.relay.cut(bob.client.agentId)
  const joined = await bob.joinWithToken(NAME, token)
  assert.deepEqual(await take(joined, 1), [canary])
  assert.equal(world.relay.sawPlaintext(canary), false)
})

test('a Welcome that arrives while the agent still leaves is held, and the agent joins once it has left', async (t) => {
  const { world, alice, bob, room } = await scene(t)
  const { relay } = world
  const { agentId } = bob.client
  const channel = alice.client.channel(NAME)
  const tokens = [await alice.invite(NAME, { maxUses: 5 }), await alice.invite(NAME, { maxUses: 5 })] as const
  // Bob is shown nothing after the commit that added him, so he is not greeted.
  const commits = room.commit.bind(room)
  room.commit = (sender, request) => {
    const welcomes = commits(sender, request)
    if (welcomes.length > 0) room.view(agentId).lie = () => []
    return welcomes
  }
  // Alice gets one of his two requests; the other is late.
  const handOut = relay.handOut.bind(relay)
  relay.handOut = () => {}
  const joining = tokens.map((token) => bob.joinWithToken(NAME, token))
  const refused: string[] = []
  for (const promise of joining) promise.catch((error: StaticError) => refused.push(error.code))
  await relay.until(() => relay.joins.length === 2)
  const [late] = relay.joins.splice(1)
  relay.handOut = handOut
  relay.handOut()
  await relay.until(() => relay.requests(agentId, 'sendMessage').length > 0)
  // He cannot go on, and leaves. The relay does not answer.
  const { answer } = relay
  relay.answer = (agent, asked, honest) => (asked.case === 'leave' ? undefined : answer(agent, asked, honest))
  const { index, hash, slot } = room.view(agentId).position
  const value = create(GapNoticeSchema, {
    channelId: room.channelId,
    firstIndex: BigInt(index + 1),
    position: wired({ index: index + 9, hash, slot: slot + 1 }),
    commitLost: true,
  })
  relay.push(agentId, { case: 'gap', value })
  await relay.until(() => relay.requests(agentId, 'leave').length > 0)
  room.commit = commits
  await channel.removeMember(agentId)
  const back = event(alice.client, 'members_changed', ({ added }) => added.includes(agentId))
  relay.joins.push(late!)
  relay.handOut()
  await back
  assert.deepEqual(refused, [])
  relay.answer = answer
  relay.cut(agentId)
  await goOn(channel, await Promise.any(joining))
})

test('9 a Welcome that was used before: refused', async (t) => {
  const { alice, bob } = await scene(t)
  const channel = alice.client.channel(NAME)
  const welcome = await channel.addMember(await bob.client.generateKeyPackage())
  const joined = await bob.client.joinChannel(NAME, welcome)
  await goOn(channel, joined)
  const ended = event(bob.client, 'channel_failed')
  await channel.removeMember(bob.client.agentId)
  assert.equal((await ended).error.code, 'removed')
  await joined.leave()
  await assert.rejects(bob.client.joinChannel(NAME, welcome), code('invalid_welcome', /already used/))
})

test('10 the Welcome of a losing commit: no one answers, and the application gets no channel', async (t) => {
  const { world, alice, bob, room } = await scene(t)
  const { agentId } = bob.client
  const token = await alice.invite(NAME)
  let show: (() => void) | undefined
  world.relay.answer = (agent, asked, honest) => {
    if (asked.case !== 'sendCommit' || asked.value.welcomes.length === 0) return honest()
    if (show) {
      const answer = honest()
      show()
      return answer
    }
    // Once another commit is in its place, the relay shows bob the one that it has refused, and nothing else.
    const { position } = room.view(agent)
    const shown = new View({ ...position, index: position.index + 1, slot: position.slot + 1 })
    shown.lie = () => []
    const pretence = { channelId: room.channelId, name: CHANNEL, victim: new Uint8Array() }
    const { inviteId, tag, welcome } = asked.value.welcomes[0]!
    const whole = Uint8Array.from(Buffer.concat([welcome, asked.value.groupInfo]))
    show = () => {
      room.views.set(agentId, shown)
      world.relay.welcomeTo(agentId, delivering(pretence, whole, { inviteId, tag }))
    }
    return refusing({ code: 'epoch_mismatch', head: BigInt(position.slot) })
  }
  world.relay.welcome = () => undefined
  const failing = event(alice.client, 'decryption_failure')
  const joining = bob.joinWithToken(NAME, token, SOON)
  joining.catch(() => {})
  assert.equal((await failing).sender, agentId)
  await assert.rejects(joining, code('join_timeout'))
  assert.throws(() => bob.client.channel(NAME), code('not_found'))
  // Alice and whoever else comes go on.
  const carol = await world.manager('carol', { guest: true })
  world.relay.welcome = (welcome) => welcome
  const joined = await carol.joinWithToken(NAME, await alice.invite(NAME))
  await goOn(alice.client.channel(NAME), joined)
})

test('11 a join request is replayed: it adds no one and takes no use', async (t) => {
  const { world, alice, bob, room } = await scene(t)
  const token = await alice.invite(NAME, { maxUses: 2 })
  const channels = [alice.client.channel(NAME), await bob.joinWithToken(NAME, token)]
  await goOn(...channels)
  const [join] = world.relay.given
  const adding = (): number =>
    room.log.filter((entry) => entry.case === 'deliverCommit' && entry.value.declaration!.adds.length > 0).length
  for (let times = 0; times < 3; times++) {
    const polls = world.relay.requests(alice.client.agentId, 'pollJoinRequests').length
    world.relay.joins.push(join!)
    world.relay.handOut()
    await world.relay.until(() => world.relay.requests(alice.client.agentId, 'pollJoinRequests').length > polls)
  }
  assert.equal(adding(), 1)
  const carol = await world.manager('carol', { guest: true })
  channels.push(await carol.joinWithToken(NAME, token))
  await goOn(...channels)
  // Once bob was removed, his request brings nobody back, although the relay has not revoked the invite.
  world.relay.answer = (_agent, asked, honest) => {
    if (asked.case === 'revokeInvite') return answering({ case: 'revokeInvite', value: {} })
    return honest()
  }
  await channels[0]!.removeMember(bob.client.agentId)
  world.relay.joins.push(join!)
  world.relay.handOut()
  await world.relay.until(() => world.relay.requests(alice.client.agentId, 'answerJoin').length > 0)
  assert.equal(world.relay.requests(alice.client.agentId, 'answerJoin')[0]!.code, 'invite_revoked')
  assert.equal(adding(), 2)
  const canary = makeCanary()
  await channels[0]!.send(canary)
  assert.deepEqual(await take(channels[2]!, 1), [canary])
  assert.equal(world.relay.sawPlaintext(canary), false)
})

for (const admit of ['owner', 'members'] as const) {
  test(`11 the request of an agent that has left is replayed (${admit}): it adds no one and takes no use`, async (t) => {
    const { world, alice, bob, room } = await scene(t)
    const joined = await bob.joinWithToken(NAME, await alice.invite(NAME, { maxUses: 2, admit }))
    const channel = alice.client.channel(NAME)
    await goOn(channel, joined)
    const [join] = world.relay.given
    await joined.leave()
    await world.relay.until(() => channel.members().length === 1)
    const polls = (): number => world.relay.requests(alice.client.agentId, 'pollJoinRequests').length
    const before = polls()
    world.relay.joins.push(join!)
    world.relay.handOut()
    const adds = (): number =>
      room.log.filter((entry) => entry.case === 'deliverCommit' && entry.value.declaration!.adds.length > 0).length
    // She is done with it.
    await world.relay.until(() => polls() > before)
    assert.equal(adds(), 1)
    // Not refused either: bob may have asked again with the same invite.
    assert.deepEqual(world.relay.requests(alice.client.agentId, 'answerJoin'), [])
    assert.equal(alice.invites(NAME)[0]?.uses, 1)
  })
}

for (const isBack of [true, false]) {
  const who = isBack ? 'is a member for the third time' : 'has left twice'
  test(`11 the first request of an agent that ${who} is replayed: it changes nothing and takes no use`, async (t) => {
    const { world, alice, bob, room } = await scene(t)
    const token = await alice.invite(NAME, { maxUses: 9 })
    const channel = alice.client.channel(NAME)
    const join = async (): Promise<Channel> => {
      const joined = await bob.joinWithToken(NAME, token)
      await goOn(channel, joined)
      return joined
    }
    for (let times = 0; times < 2; times++) {
      await (await join()).leave()
      await world.relay.until(() => channel.members().length === 1)
    }
    const joined = isBack ? await join() : undefined
    const polls = (): number => world.relay.requests(alice.client.agentId, 'pollJoinRequests').length
    const before = polls()
    world.relay.joins.push(world.relay.given[0]!)
    world.relay.handOut()
    await world.relay.until(() => polls() > before)
    const adds = room.log.filter(
      (entry) => entry.case === 'deliverCommit' && entry.value.declaration!.adds.length > 0,
    ).length
    const times = isBack ? 3 : 2
    assert.equal(adds, times)
    assert.equal(alice.invites(NAME)[0]?.uses, times)
    if (joined) await goOn(channel, joined)
  })
}

test('8 a fake group with the id and name of the token is offered while bob waits to join: he does not get that', async (t) => {
  const at = await scene(t)
  const { world, alice, bob } = at
  const { relay } = world
  const token = await alice.invite(NAME)
  const handOut = relay.handOut.bind(relay)
  relay.handOut = () => {}
  let outcome: unknown
  const joining = bob.joinWithToken(NAME, token, SOON).catch((error: unknown) => {
    outcome = error
  })
  await relay.until(() => relay.joins.length === 1)
  const { owner: _, ...pretence } = pretenceOf(at)
  const { welcome, mallory } = await fakeGroup(pretence)
  const offers = bob.client.joins()
  deliverTo(at, pretence, delivering(pretence, welcome))
  const offer = (await offers.next()).value!
  const fake = await offer.accept()
  assert.equal(fake.owner.replaceAll(' ', ''), toHex(mallory.agentId))
  await joining
  assert.ok(code('join_timeout')(outcome))
  await assert.rejects(bob.joinWithToken(NAME, token, SOON), code('channel_exists'))
  relay.handOut = handOut
})

test('8 a fake group with the id and name of a channel is offered: an agent that joins it by hand gets its owner', async (t) => {
  const at = await scene(t)
  const { world, alice, bob } = at
  const { relay } = world
  const { owner: _, ...pretence } = pretenceOf(at)
  const { welcome, mallory } = await fakeGroup(pretence)
  const offers = bob.client.joins()
  relay.welcomeTo(bob.client.agentId, delivering(pretence, welcome))
  const offer = (await offers.next()).value!
  relay.welcome = () => undefined
  const channel = alice.client.channel(NAME)
  const owner = alice.client.agentId
  const own = await channel.addMember(await bob.client.generateKeyPackage())
  const joined = await bob.client.joinChannel(NAME, own, { owner })
  assert.equal(joined.owner.replaceAll(' ', ''), owner)
  await goOn(channel, joined)
  // Neither is the fake one left in its place, nor accepted, nor does the same Welcome give the channel of another owner.
  await assert.rejects(offer.decline(), code('closed'))
  await assert.rejects(offer.accept(), code('channel_exists'))
  const another = toHex(mallory.agentId)
  await assert.rejects(bob.client.joinChannel(NAME, own, { owner: another }), code('invalid_welcome', /is owned by/))
  assert.equal(await bob.client.joinChannel(NAME, own, { owner }), joined)
  await goOn(channel, joined)
})

test('8 a fake group of another name is offered while a channel with its id is joined: the join continues', async (t) => {
  const at = await scene(t)
  const { world, alice, bob } = at
  const { relay } = world
  const { agentId } = bob.client
  const { owner: _, ...pretence } = { ...pretenceOf(at), name: parseChannelName('mallory/x/y') }
  const { welcome } = await fakeGroup(pretence)
  relay.welcome = () => undefined
  const channel = alice.client.channel(NAME)
  const own = await channel.addMember(await bob.client.generateKeyPackage())
  const isJoin = (channelIds: readonly Uint8Array[]): boolean => channelIds.length > 0
  relay.answer = (agent, asked, honest) =>
    agent === agentId && asked.case === 'resume' && isJoin(asked.value.channelIds) ? undefined : honest()
  const joining = bob.client.joinChannel(NAME, own)
  await relay.until(() => relay.requests(agentId, 'resume').some(({ channelIds }) => isJoin(channelIds)))
  relay.welcomeTo(agentId, delivering(pretence, welcome))
  await relay.until(() => relay.unread(agentId) === 0)
  relay.answer = (_agent, _asked, honest) => honest()
  relay.cut(agentId)
  const joined = await joining
  await goOn(channel, joined)
  assert.equal(bob.client.channel(NAME), joined)
})

test('13 one KeyPackage is served twice: it opens one channel', async (t) => {
  const { world, alice, bob } = await scene(t)
  const keyPackage = pooled(world, bob.client)!
  world.relay.answer = (_agent, asked, honest) =>
    asked.case === 'addMember' ? answering({ case: 'addMember', value: { keyPackage } }) : honest()
  const first = alice.client.channel(NAME)
  const second = await alice.create('acme/support/second')
  const offers = bob.client.joins()
  await first.addMember(bob.client.agentId)
  const one = (await offers.next()).value!
  const refused = event(bob.client, 'welcome_refused')
  await second.addMember(bob.client.agentId)
  assert.equal((await refused).error.code, 'invalid_welcome')
  const joined = await one.accept()
  await goOn(first, joined)
  // Nor twice in one channel.
  await assert.rejects(first.addMember(bob.client.agentId), code('invalid_request', /already/))
  await goOn(first, joined)
})

test('13 one KeyPackage for two channels, both joined at once: it opens one', async (t) => {
  const { alice, bob } = await scene(t)
  const other = 'acme/support/second'
  const channels = [alice.client.channel(NAME), await alice.create(other)] as const
  const keyPackage = await bob.client.generateKeyPackage()
  const welcomes = [await channels[0].addMember(keyPackage), await channels[1].addMember(keyPackage)] as const
  const outcomes = await Promise.allSettled([
    bob.client.joinChannel(NAME, welcomes[0]),
    bob.client.joinChannel(other, welcomes[1]),
  ])
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected'],
  )
  assert.ok(outcomes[1].status === 'rejected' && code('invalid_welcome', /already used/)(outcomes[1].reason))
  assert.throws(() => bob.client.channel(other), code('not_found'))
  await goOn(channels[0], bob.client.channel(NAME))
})

for (const [what, same] of [
  ['name', false],
  ['name and id', true],
] as const) {
  test(`24 an unsolicited Welcome of the same ${what}: bob stays in his group`, async (t) => {
    const { world, alice, bob, room } = await scene(t)
    const channel = alice.client.channel(NAME)
    const joined = await bob.client.joinChannel(NAME, await channel.addMember(await bob.client.generateKeyPackage()))
    await goOn(channel, joined)
    const { agentId } = bob.client
    await world.relay.until(() => world.relay.unread(agentId) === 0)
    const channelId = same ? room.channelId : new Uint8Array(randomBytes(16))
    const pretence = { channelId, name: CHANNEL, victim: pooled(world, bob.client)! }
    const { welcome, mallory } = await fakeGroup(pretence)
    const offered = bob.client.joins().next()
    offered.catch(() => {})
    world.relay.welcomeTo(agentId, delivering(pretence, welcome))
    await world.relay.until(() => world.relay.unread(agentId) === 0)
    if (!same) await assert.rejects((await offered).value!.accept(), code('channel_exists'))
    const canary = makeCanary()
    await bob.send(NAME, canary)
    assert.deepEqual(await take(channel, 1), [canary])
    const sent = room.log.at(-1)!
    assert.ok(sent.case === 'deliverMessage')
    const { ciphertext } = sent.value
    assert.throws(() => mallory.open(ciphertext))
    assert.equal(bob.client.channel(NAME).id, channel.id)
    await goOn(channel, joined)
    await world.agree(room, [channel, joined], [alice.client.agentId, agentId])
  })
}

test("25 the owner's own KeyPackage on leaf 0, by another token holder: the signer is not the owner", async (t) => {
  const place = await scene(t)
  const { world, bob, room } = place
  const { token, keys, joining } = await asking(place)
  const { owner } = pretenceOf(place)
  const request = openRequest(
    keys,
    { channelId: room.channelId, name: NAME, owner: owner.agentId },
    world.relay.joins[0]!.box,
  )
  const pretence = { ...pretenceOf(place), victim: request!.keyPackage, invite: keys }
  const { welcome, mallory } = await fakeGroup(pretence)
  assert.deepEqual(engine.facts(mallory.group).members.find(({ leaf }) => leaf === 0)?.agentId, owner.agentId)
  const tag = welcomeTag(keys, request!.keyPackage, welcome, engine.facts(mallory.group).epochAuthenticator)
  const { inviteId } = keys
  deliverTo(place, pretence, delivering(pretence, welcome, { inviteId, tag }))
  await assert.rejects(joining, code('invalid_welcome', /made by agent/))
  assert.throws(() => bob.client.channel(NAME), code('not_found'))
  await honestAfterAll(place, token)
})

for (const names of ['the invite', 'nothing'] as const) {
  test(`25 a member that may admit makes a bad Welcome that names ${names}: the next request has a new KeyPackage`, async (t) => {
    const place = await scene(t)
    const { world, bob, room } = place
    const { token, keys, joining } = await asking(place, 'members')
    const { owner } = pretenceOf(place)
    const where = { channelId: room.channelId, name: NAME, owner: owner.agentId }
    const keyPackageOf = (box: Uint8Array): Uint8Array => openRequest(keys, where, box)!.keyPackage
    const victim = keyPackageOf(world.relay.joins[0]!.box)
    const pretence = { ...pretenceOf(place), victim, ...(names === 'the invite' && { invite: keys }) }
    const { welcome } = await fakeGroup(pretence)
    const { inviteId } = keys
    const named = names === 'nothing' ? {} : { inviteId, tag: new Uint8Array(32) }
    deliverTo(place, pretence, delivering(pretence, welcome, named))
    const why = names === 'nothing' ? /not for a join by this invite/ : /has not confirmed it/
    await assert.rejects(joining, code('invalid_welcome', why))
    world.relay.joins.length = 0
    const handOut = world.relay.handOut.bind(world.relay)
    world.relay.handOut = () => {}
    bob.joinWithToken(NAME, token).catch(() => {})
    await world.relay.until(() => world.relay.joins.length === 1)
    assert.notDeepEqual(keyPackageOf(world.relay.joins[0]!.box), victim)
    world.relay.handOut = handOut
    await honestAfterAll(place, token)
  })
}

test('26 a removed member tries to return with its old token: refused, whatever the relay forgets', async (t) => {
  const { world, alice, bob } = await scene(t)
  const mallory = await world.manager('mallory', { guest: true })
  world.relay.answer = (_agent, asked, honest) => {
    if (asked.case === 'revokeInvite') return answering({ case: 'revokeInvite', value: {} })
    return honest()
  }
  const token = await alice.invite(NAME, { maxUses: 5 })
  // Another invite keeps alice asking.
  const other = await alice.invite(NAME)
  const channel = alice.client.channel(NAME)
  const joined = await mallory.joinWithToken(NAME, token)
  await goOn(channel, joined)
  const ended = event(mallory.client, 'channel_failed')
  await channel.removeMember(mallory.client.agentId)
  assert.equal((await ended).error.code, 'removed')
  await assert.rejects(mallory.joinWithToken(NAME, token), code('invite_revoked'))
  assert.deepEqual(
    channel.members().map(({ agentId }) => agentId),
    [alice.client.agentId],
  )
  await goOn(channel, await bob.joinWithToken(NAME, other))
})

test('27 a token for a foreign relay: nothing is sent anywhere', async (t) => {
  const { world, alice, bob } = await scene(t)
  const token = await alice.invite(NAME)
  const foreign = encodeToken({ ...decodeToken(token), relay: 'evil.example' })
  const sent = (): number => world.relay.asked.filter(({ agent }) => agent === bob.client.agentId).length
  const [asked, dialled] = [sent(), world.relay.dialled.length]
  await assert.rejects(bob.joinWithToken(NAME, foreign), code('invite_invalid', /evil\.example/))
  assert.deepEqual(world.relay.requests(bob.client.agentId, 'requestJoin'), [])
  assert.deepEqual([sent(), world.relay.dialled.length], [asked, dialled])
  await goOn(alice.client.channel(NAME), await bob.joinWithToken(NAME, token))
})

function sealed({ box, inviteId }: InviteKeys, plaintext: Uint8Array): Uint8Array {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', box, nonce).setAAD(inviteId)
  return new Uint8Array(Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]))
}
