import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { DeclarationSchema } from '@static/protocol/relay'
import { fromHex, toHex } from '@static/protocol'
import { add, bare, FORBIDDEN } from '../mls/forbidden-commits.ts'
import { Insider } from '../support/insider.ts'
import { dropping, isCommit, once, swapping } from '../support/lies.ts'
import { answering } from '../support/lying-relay.ts'
import type { Entry } from '../support/lying-room.ts'
import { goOn, LyingSystem, makeCanary } from '../support/lying-system.ts'
import { code, event, NAME, take } from '../support/test-system.ts'
import { forked, lastMessage, scene, victim } from './scene.ts'

const DAY = 86_400_000

test('2 a commit is dropped: a message of the unknown epoch stops bob', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const canary = makeCanary()
  const telling = event(clients[1], 'channel_failed')
  room.view(ids[1]).lie = dropping(isCommit)
  await channels[2].rotate()
  await channels[0].send(canary)
  assert.equal((await telling).error.code, 'mls_error')
  await assert.rejects(channels[1].send('never'), code('mls_error'))
  assert.deepEqual(await take(channels[2], 1), [canary])
  await goOn(channels[0], channels[2])
  assert.equal(world.relay.sawPlaintext(canary), false)
})

test('2 a removal and everything after it is withheld from a member: only verify reveals it', async (t) => {
  const { world, room, channels, ids } = await scene(t)
  const mallory = await Insider.join(world.relay, channels[0])
  await world.agree(room, channels, ids)
  room.view(ids[1]).lie = () => []
  await channels[0].removeMember(mallory.agentId)
  await channels[0].send('mallory is gone')
  assert.deepEqual(await take(channels[2], 1), ['mallory is gone'])
  assert.equal(mallory.opens(lastMessage(room).ciphertext), false)
  await world.relay.read(room, ...ids)
  assert.equal(channels[0].verify(), channels[2].verify())
  assert.notEqual(channels[0].verify(), channels[1].verify())
})

test('3 two commits are reordered: the later one cannot be first', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const canary = makeCanary()
  const telling = event(clients[1], 'channel_failed')
  room.view(ids[1]).lie = swapping(isCommit)
  await channels[2].rotate()
  await channels[0].rotate()
  assert.equal((await telling).error.code, 'mls_error')
  await assert.rejects(channels[1].send('never'), code('mls_error'))
  await channels[0].send(canary)
  assert.deepEqual(await take(channels[2], 1), [canary])
  assert.equal(world.relay.sawPlaintext(canary), false)
})

test('5 a commit is replayed: skipped, and the fork is detected', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const canary = makeCanary()
  const skipping = event(clients[1], 'commit_skipped')
  const telling = event(clients[1], 'fork_detected')
  room.view(ids[1]).lie = once(isCommit, (entry) => [entry, entry])
  await channels[2].rotate()
  assert.equal((await skipping).reason, 'other_epoch')
  await channels[0].send(canary)
  assert.deepEqual([await take(channels[1], 1), await take(channels[2], 1)], [[canary], [canary]])
  await channels[2].send('the next one')
  await forked(telling, channels[1], ids[2])
  assert.equal(world.relay.sawPlaintext(canary), false)
})

test('6 two halves get different commits: neither reads the other, and verify differs', async (t) => {
  const world = LyingSystem.start(t)
  const clients = await world.agents('alice', 'bob', 'carol', 'dave')
  const { room, channels } = await world.channel(clients)
  const ids = clients.map(({ agentId }) => agentId)
  const [alice, bob, carol, dave] = channels
  await goOn(...channels)
  await world.agree(room, channels, ids)
  const hiding = (sender: string | undefined) => (entry: Entry) =>
    entry.case === 'deliverCommit' && toHex(entry.value.sender) === sender ? [] : [entry]
  for (const at of [0, 1]) room.view(ids[at]!).lie = hiding(ids[2])
  for (const at of [2, 3]) room.view(ids[at]!).lie = hiding(ids[0])
  await Promise.all([alice!.rotate(), carol!.rotate()])
  const failing = [0, 1, 2, 3].map((at) => event(clients[at]!, 'decryption_failure'))
  const canaries = [makeCanary(), makeCanary()] as const
  await Promise.all([alice!.send(canaries[0]), carol!.send(canaries[1])])
  assert.deepEqual([await take(bob!, 1), await take(dave!, 1)], [[canaries[0]], [canaries[1]]])
  const senders = (await Promise.all(failing)).map(({ sender }) => sender)
  assert.deepEqual(senders, [ids[2], ids[2], ids[0], ids[0]])
  await world.relay.read(room, ...ids)
  assert.equal(alice!.verify(), bob!.verify())
  assert.equal(carol!.verify(), dave!.verify())
  assert.notEqual(alice!.verify(), carol!.verify())
  for (const canary of canaries) assert.equal(world.relay.sawPlaintext(canary), false)
})

test('16 a garbage commit takes a slot and nothing else', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const mallory = await Insider.join(world.relay, channels[0])
  await goOn(...channels)
  await mallory.follow()
  const commit = await bare(mallory.mls, [])
  for (const [garbage, reason] of [
    [new Uint8Array(randomBytes(500)), 'not_a_commit'],
    [commit.with(commit.length - 1, commit.at(-1)! ^ 1), 'undecryptable'],
  ] as const) {
    const skipping = clients.map((client) => event(client, 'commit_skipped'))
    mallory.commit(garbage)
    for (const told of skipping) {
      const { slot: _, ...rest } = await told
      assert.deepEqual(rest, { type: 'commit_skipped', channel: NAME, sender: mallory.agentId, reason })
    }
  }
  const canary = makeCanary()
  await channels[1].send(canary)
  assert.deepEqual([await take(channels[0], 1), await take(channels[2], 1)], [[canary], [canary]])
  await channels[2].rotate()
  await goOn(...channels)
  await world.agree(room, channels, ids)
  // Those who have made or followed the commit before say so, the owner too.
  const voters = new Set(room.votes.map((vote) => vote.split(' ')[0]))
  assert.deepEqual(voters, new Set(ids))
  assert.equal(world.relay.sawPlaintext(canary), false)
})

test('17 a roster of only the attacker: every member skips the commit and stays', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const mallory = await Insider.join(world.relay, channels[0])
  const skipping = clients.map((client) => event(client, 'commit_skipped'))
  mallory.commit(await bare(mallory.mls, []), { removes: ids.map(fromHex) })
  for (const told of skipping) assert.equal((await told).reason, 'declaration_differs')
  for (const channel of channels) assert.equal(channel.members().length, 4)
  const canary = makeCanary()
  await channels[0].removeMember(mallory.agentId)
  await channels[0].send(canary)
  assert.deepEqual([await take(channels[1], 1), await take(channels[2], 1)], [[canary], [canary]])
  assert.equal(mallory.opens(lastMessage(room).ciphertext), false)
  await goOn(...channels)
  await world.agree(room, channels, ids)
})

test("17 the relay declares its own roster in a member's name: the channel stops", async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const telling = event(clients[1], 'channel_failed')
  room.view(ids[1]).lie = once(isCommit, (entry) => {
    assert.ok(entry.case === 'deliverCommit')
    const { signature } = entry.value.declaration!
    const declaration = create(DeclarationSchema, { adds: [randomBytes(32)], signature })
    return [{ ...entry, value: { ...entry.value, declaration } }]
  })
  await channels[2].rotate()
  assert.equal((await telling).error.code, 'mls_error')
  await assert.rejects(channels[1].send('never'), code('mls_error'))
  await goOn(channels[0], channels[2])
  await world.agree(room, [channels[0], channels[2]], [ids[0], ids[2]])
})

test('17 the relay claims to own the channel: reported and ignored', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t)
  const telling = event(clients[1], 'roster_lie')
  world.relay.answer = (agent, asked, honest) => {
    const answer = honest()
    if (agent !== ids[1] || asked.case !== 'resume' || answer?.case !== 'resume') return answer
    const channels = answer.value.channels.map((state) => ({ ...state, owner: randomBytes(32) }))
    return answering({ case: 'resume', value: { channels } })
  }
  world.relay.cut(ids[1])
  assert.equal((await telling).channel, NAME)
  assert.equal(channels[1].owner, clients[0].fingerprint())
  await goOn(...channels)
  await world.agree(room, channels, ids)
})

test('18 commits that the rules forbid: every member skips them, and the channel continues', async (t) => {
  // By the names that the forbidden commits use.
  const { world, room, clients, channels, ids } = await scene(t, [], ['owner', 'bob', 'carol'])
  const mallory = await Insider.join(world.relay, channels[0])
  const [owner, bob] = [victim(world, 'owner', ids[0]), victim(world, 'bob', ids[1])]
  for (const [name, reason, forge] of FORBIDDEN) {
    const { commit, declaration, declarer } = await forge({
      channelId: room.channelId,
      ann: mallory.mls,
      owner,
      bob,
    })
    if (declarer) continue
    const skipping = clients.map((client) => event(client, 'commit_skipped'))
    mallory.commit(commit, declaration)
    for (const told of skipping) assert.equal((await told).reason, reason, name)
    await channels[1].send(name)
    assert.deepEqual([await take(channels[0], 1), await take(channels[2], 1)], [[name], [name]])
  }
  for (const channel of channels) {
    assert.deepEqual(new Set(channel.members().map(({ agentId }) => agentId)), new Set([...ids, mallory.agentId]))
  }
  await goOn(...channels)
  await world.agree(room, channels, ids)
})

test('18 a commit that the relay attributes to another member: the channel stops', async (t) => {
  const { world, clients, channels, ids } = await scene(t)
  const mallory = await Insider.join(world.relay, channels[0])
  const telling = [clients[0], clients[2]].map((client) => event(client, 'channel_failed'))
  mallory.room.view(ids[1]).lie = () => []
  mallory.commit(await bare(mallory.mls, []), {}, ids[1])
  for (const told of telling) assert.equal((await told).error.code, 'mls_error')
})

test('19 members with different clocks and pins reach the same decision about a commit', async (t) => {
  let skewed = false
  const clocks = [0, 200 * DAY, -200 * DAY].map((skew) => ({ now: () => Date.now() + (skewed ? skew : 0) }))
  const { world, room, clients, channels, ids } = await scene(t, clocks)
  // Alice knew dave by another key, since she has added him; bob, who has only met him, and carol did not.
  const dave = await world.agent('dave')
  await world.channel([clients[0], clients[1], dave], 'acme/support/other')
  const mallory = await Insider.join(world.relay, channels[0])
  await world.agree(room, channels, ids)
  skewed = true
  const [proposal, agentId] = await add('dave')
  const changes = clients.map((client) => event(client, 'members_changed'))
  const told = event(clients[0], 'identity_changed')
  mallory.commit(await bare(mallory.mls, [proposal]), { adds: [agentId] })
  for (const change of changes) assert.deepEqual((await change).added, [toHex(agentId)])
  assert.deepEqual([(await told).known, (await told).now], [dave.agentId, toHex(agentId)])
  await goOn(...channels)
  await world.agree(room, channels, ids)
})
