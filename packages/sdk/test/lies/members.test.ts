/**
 * Attacks of those who were members, and on who is one. Proven elsewhere:
 * - 15, the founder's part: the agent forgets the founder, so test/mls/lone-leaf.test.ts makes one by hand.
 * - 28 a guest who has an account: the relay's rule, relay/test/scenario/sessions.ts ("who acted for an account does not
 *   act as a guest there") and relay/test/store/append.test.ts.
 * - 29 the relay's part, a full channel: relay/test/store/capacity.test.ts. What an agent makes of gaps is here.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { fromHex, leaveBytes, toHex } from '@static/protocol'
import { DeliverLeaveSchema, GapNoticeSchema, LeaveNoticeSchema, PositionSchema } from '@static/protocol/relay'
import { agentIdOf, ed25519, generateSignatureKeyPair } from '../../src/mls/index.ts'
import { readsOn } from '../mls/attacker.ts'
import { bare, remove } from '../mls/forbidden-commits.ts'
import { engine } from '../mls/support.ts'
import { Insider } from '../support/insider.ts'
import { dropping, isCommit } from '../support/lies.ts'
import { answering, refusing } from '../support/lying-relay.ts'
import { type Entry, wired } from '../support/lying-room.ts'
import { goOn, LyingSystem, makeCanary } from '../support/lying-system.ts'
import { code, event, NAME, take } from '../support/test-system.ts'
import { forked, lastCommit, lastMessage, scene, victim } from './scene.ts'

test('15 a member removed from a channel of two or three cannot compute the next epoch', async (t) => {
  const world = LyingSystem.start(t)
  const [alice, bob] = await world.agents('alice', 'bob')
  const { room, channels } = await world.channel([alice])
  const [channel] = channels
  const canary = makeCanary()
  const gone: Insider[] = []
  for (const names of [['mallory'], ['eve', 'trudy']]) {
    const insiders: Insider[] = []
    for (const name of names) insiders.push(await Insider.join(world.relay, channel!, name))
    for (const insider of insiders) await insider.follow()
    for (const insider of insiders) {
      await channel!.removeMember(insider.agentId)
      await channel!.send(canary)
      const { ciphertext } = lastMessage(room)
      const { commit } = lastCommit(room)
      // A control: it holds the state of the epoch before.
      assert.equal(engine.facts(insider.mls.group).epoch + 1n, engine.epochOf(ciphertext))
      assert.equal(await readsOn(insider.mls.group, insider.mls.key, commit, ciphertext), undefined)
      for (const other of insiders) if (other !== insider) await other.follow()
      gone.push(insider)
    }
  }
  // Nor what is said when somebody else has come.
  const joined = await bob.joinChannel(NAME, await channel!.addMember(await bob.generateKeyPackage()))
  await channel!.send(canary)
  assert.deepEqual(await take(joined, 1), [canary])
  for (const insider of gone) {
    await insider.follow()
    assert.equal(insider.opens(lastMessage(room).ciphertext), false)
  }
  assert.equal(world.relay.sawPlaintext(canary), false)
  await goOn(channel!, joined)
})

test('15 the stolen database of an agent that is alone reads nothing after its next rotate', async (t) => {
  const world = LyingSystem.start(t)
  const alice = await world.agent('alice', { disk: true })
  const { room, channels } = await world.channel([alice])
  const [channel] = channels
  await channel!.send('before')
  const { channels: stored, identity } = world.stores.get('alice')!.load()
  const key = { publicKey: identity.publicKey, seed: identity.secretKey }
  const group = engine.decodeGroup(stored[0]!.epoch!.group, key)
  await channel!.rotate()
  await channel!.send(makeCanary())
  const { ciphertext } = lastMessage(room)
  assert.equal(engine.facts(group).epoch + 1n, engine.epochOf(ciphertext))
  assert.equal(await readsOn(group, key, lastCommit(room).commit, ciphertext), undefined)
})

test('23 Leaves that the relay had signed for later: invalid after she decides to stay', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t, [{ chance: () => 0 }, { chance: () => 0 }])
  const [, , carol] = channels
  const honest = world.relay.answer
  let named = BigInt(room.view(ids[2]).position.slot)
  world.relay.answer = (_agent, asked, answer) =>
    asked.case === 'leave' ? refusing({ code: 'epoch_mismatch', head: ++named }) : answer()
  const rekeyed = event(clients[2], 'rekeyed')
  await assert.rejects(carol.leave(), code('epoch_mismatch'))
  world.relay.answer = honest
  const harvested = world.relay.requests(ids[2], 'leave').map(({ notice }) => notice!)
  assert.equal(harvested.length, 8)
  await rekeyed
  await world.relay.read(room, ...ids)
  // One of them names the slot that the log is at by now.
  const fitting = harvested.find(({ slot }) => Number(slot) === room.view(ids[0]).position.slot)
  assert.ok(fitting)
  const telling = [clients[0], clients[1]].map((client) => event(client, 'roster_lie'))
  room.view(ids[2]).lie = (entry) => (entry.case === 'deliverLeave' ? [] : [entry])
  room.append(leaving(room.channelId, ids[2], fitting))
  world.relay.deliver()
  for (const told of telling) await told
  await goOn(channels[0], channels[1])
  assert.equal(channels[0].members().length, 3)
})

test("23 a Leave of an earlier channel in a colluding member's commit: the commit is skipped", async (t) => {
  const { world, room, clients, channels, ids } = await scene(t, [{ chance: () => 0 }, { chance: () => 0 }])
  const mallory = await Insider.join(world.relay, channels[0])
  const removing = event(clients[1], 'members_changed', ({ removed }) => removed.includes(ids[2]))
  await channels[2].leave()
  await removing
  const { notice } = world.relay.requests(ids[2], 'leave')[0]!
  const back = await clients[2].joinChannel(NAME, await channels[0].addMember(await clients[2].generateKeyPackage()))
  await mallory.follow()
  const skipping = [clients[0], clients[1], clients[2]].map((client) => event(client, 'commit_skipped'))
  const carol = { agentId: fromHex(ids[2]) }
  mallory.commit(await bare(mallory.mls, [remove(mallory.mls, carol)]), {
    removes: [carol.agentId],
    leaveNotices: [notice!],
  })
  for (const told of skipping) assert.equal((await told).reason, 'leave_notice_invalid')
  await goOn(channels[0], channels[1], back)
  await world.agree(room, [channels[0], channels[1], back], ids)
})

test('a Leave while a commit is unanswered names both leaves, and the others remove the agent', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t, [{ chance: () => 0 }, { chance: () => 0 }])
  const honest = world.relay.answer
  world.relay.answer = (agent, asked, answer) => {
    // The commit is taken, and carol never hears of it.
    if (agent !== ids[2] || asked.case !== 'sendCommit') return answer()
    const view = room.view(ids[2])
    view.hole = view.position.index + 1
    answer()
    return undefined
  }
  channels[2].rotate().catch(() => {})
  await world.relay.until(() => world.relay.requests(ids[2], 'sendCommit').length > 0)
  world.relay.answer = honest
  const removing = event(clients[1], 'members_changed', ({ removed }) => removed.includes(ids[2]))
  await channels[2].leave()
  assert.equal(world.relay.requests(ids[2], 'leave').at(-1)?.notice?.leafKeys.length, 2)
  await removing
  await goOn(channels[0], channels[1])
})

const FORGED: readonly (readonly [string, 'own' | 'other', 'own' | 'other'])[] = [
  ['that carol has not signed', 'own', 'other'],
  ['with another key', 'other', 'other'],
]

for (const [name, publicKeyOf, signedBy] of FORGED) {
  test(`23 a Leave ${name}: reported, and no one is removed`, async (t) => {
    const { world, room, clients, channels, ids } = await scene(t, [{ chance: () => 0 }, { chance: () => 0 }])
    const carol = victim(world, 'carol', ids[2]).key
    const other = generateSignatureKeyPair()
    const slot = BigInt(room.view(ids[0]).position.slot)
    const leafKeys = [...world.stores.get('carol')!.load().channels[0]!.record.leafKeys]
    const signer = ed25519.signer(signedBy === 'own' ? carol : other)
    const signature = signer(leaveBytes(room.channelId, { slot, leafKeys }))
    const publicKey = (publicKeyOf === 'own' ? carol : other).publicKey
    const notice = create(LeaveNoticeSchema, { publicKey, slot, leafKeys, signature })
    const telling = [clients[0], clients[1]].map((client) => event(client, 'roster_lie'))
    // Carol would know better.
    room.view(ids[2]).lie = (entry) => (entry.case === 'deliverLeave' ? [] : [entry])
    room.append(leaving(room.channelId, ids[2], notice))
    world.relay.deliver()
    for (const told of telling) assert.match((await told).detail, /did not sign a notice/)
    const before = room.log.length
    const canary = makeCanary()
    // Carol's log is another one, and that is found, too.
    const forking = event(clients[2], 'fork_detected')
    await channels[0].send(canary)
    assert.deepEqual([await take(channels[1], 1), await take(channels[2], 1)], [[canary], [canary]])
    await forked(forking, channels[2], ids[0])
    await goOn(channels[0], channels[1])
    assert.deepEqual(room.log.slice(before).filter(isCommit), [])
    assert.equal(channels[0].members().length, 3)
    assert.equal(world.relay.sawPlaintext(canary), false)
  })
}

test('23 a Leave from another channel, or from before she came back: reported, and no one is removed', async (t) => {
  const { world, room, clients, channels, ids } = await scene(t, [{ chance: () => 0 }, { chance: () => 0 }])
  const elsewhere = await world.channel([...clients], 'acme/support/other')
  await elsewhere.channels[2]!.leave()
  const removing = event(clients[1], 'members_changed', ({ removed }) => removed.includes(ids[2]))
  await channels[2].leave()
  await removing
  const back = await clients[2].joinChannel(NAME, await channels[0].addMember(await clients[2].generateKeyPackage()))
  const notices = [elsewhere.room, room].map(({ log }) => log.find((entry) => entry.case === 'deliverLeave')!)
  for (const entry of notices) {
    assert.ok(entry.case === 'deliverLeave')
    assert.deepEqual(toHex(agentIdOf(entry.value.notice!.publicKey)), ids[2])
    const telling = [clients[0], clients[1]].map((client) => event(client, 'roster_lie'))
    room.view(ids[2]).lie = (shown) => (shown.case === 'deliverLeave' ? [] : [shown])
    room.append(leaving(room.channelId, ids[2], entry.value.notice!))
    world.relay.deliver()
    for (const told of telling) await told
  }
  await channels[0].send('she is here')
  assert.deepEqual([await take(channels[1], 1), await take(back, 1)], [['she is here'], ['she is here']])
  assert.equal(channels[0].members().length, 3)
})

test('an agent that left with a notice of another leaf comes back, although the owner was restarted in between', async (t) => {
  const world = LyingSystem.start(t)
  const before = await world.agent('alice', { disk: true })
  const [bob, carol] = await world.agents('bob', 'carol')
  const { room, channels } = await world.channel([before, bob, carol])
  const telling = event(before, 'roster_lie')
  const slot = BigInt(room.view(bob.agentId).position.slot)
  const { publicKey } = victim(world, 'bob', bob.agentId).key
  const notice = create(LeaveNoticeSchema, { publicKey, slot, leafKeys: [], signature: new Uint8Array(64) })
  room.view(bob.agentId).lie = (entry) => (entry.case === 'deliverLeave' ? [] : [entry])
  room.append(leaving(room.channelId, bob.agentId, notice))
  world.relay.deliver()
  await telling
  await before.close()
  const alice = await world.agent('alice', { disk: true })
  const again = alice.channel(NAME)
  await again.catchUp()
  // The relay's word alone removes no one, also after the restart.
  assert.equal(again.members().length, 3)
  const adding = event(carol, 'members_changed', ({ added }) => added.includes(bob.agentId))
  await again.addMember(await bob.generateKeyPackage())
  assert.deepEqual((await adding).removed, [bob.agentId])
  assert.equal(channels[2]!.members().length, 3)
})

test('29 a gap that hides a group change: the channel stops', async (t) => {
  for (const [claimed, commitLost, expected] of [
    [1, false, 'fork_detected'],
    [1, true, 'mls_error'],
    // It claims that there was none: the first message of the new epoch shows it.
    [0, false, 'mls_error'],
  ] as const) {
    const { world, room, clients, channels, ids } = await scene(t)
    const telling = event(clients[1], 'channel_failed')
    const view = room.view(ids[1])
    const { index, slot } = view.position
    view.lie = dropping(isCommit)
    await channels[0].removeMember(ids[2])
    const { hash } = room.view(ids[0]).position
    view.skip({ index: index + 1, hash, slot: slot + claimed })
    const value = create(GapNoticeSchema, {
      channelId: room.channelId,
      firstIndex: BigInt(index + 1),
      position: wired(view.position),
      commitLost,
    })
    world.relay.push(ids[1], { case: 'gap', value })
    if (claimed === 0) await channels[0].send('of the new epoch')
    assert.equal((await telling).error.code, expected)
    await assert.rejects(channels[1].send('to carol, too'), code(expected))
  }
})

test('29 a channel is full because of a silent member: the sender is notified, and continues when there is room', async (t) => {
  const { world, room, channels, ids } = await scene(t)
  world.relay.answer = (_agent, asked, honest) =>
    asked.case === 'sendMessage' ? refusing({ code: 'queue_full' }) : honest()
  await assert.rejects(channels[0].send('no room'), code('queue_full'))
  world.relay.answer = (_agent, _asked, honest) => honest()
  await goOn(...channels)
  await world.agree(room, channels, ids)
})

test('29 a message refused for a head that does not exist: it waits, and is sent when the relay tells the truth', async (t) => {
  const { world, room, channels, ids } = await scene(t)
  world.relay.answer = (_agent, asked, honest) =>
    asked.case === 'sendMessage' ? refusing({ code: 'epoch_mismatch', head: 1n << 40n }) : honest()
  const sending = channels[1].send('held up')
  await world.relay.until(() => world.relay.requests(ids[1], 'sendMessage').length > 0)
  world.relay.answer = (_agent, _asked, honest) => honest()
  world.relay.cut(ids[1])
  await sending
  assert.deepEqual([await take(channels[0], 1), await take(channels[2], 1)], [['held up'], ['held up']])
  await goOn(...channels)
  await world.agree(room, channels, ids)
})

test('29 a Resume that reports less, or more, than this agent knows: the channel stops', async (t) => {
  for (const [change, expected] of [
    [{ lastIndex: 1n }, 'relay_rolled_back'],
    [{ head: 0n }, 'relay_rolled_back'],
    [{ lastCounter: 99n }, 'store_rolled_back'],
    [{ cursor: create(PositionSchema, { index: 1000n, hash: new Uint8Array(32) }) }, 'store_rolled_back'],
  ] as const) {
    const { world, clients, channels, ids } = await scene(t)
    const telling = event(clients[1], 'channel_failed')
    world.relay.answer = (agent, asked, honest) => {
      const answer = honest()
      if (agent !== ids[1] || asked.case !== 'resume' || answer?.case !== 'resume') return answer
      const states = answer.value.channels.map((state) => ({ ...state, ...change }))
      return answering({ case: 'resume', value: { channels: states } })
    }
    world.relay.cut(ids[1])
    assert.equal((await telling).error.code, expected)
    await assert.rejects(channels[1].send('never'), code(expected))
    await goOn(channels[0], channels[2])
  }
})

function leaving(channelId: Uint8Array, agent: string, notice: { publicKey: Uint8Array }): Entry {
  const value = create(DeliverLeaveSchema, { channelId, sender: fromHex(agent), notice })
  return { case: 'deliverLeave', value }
}
