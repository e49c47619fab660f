/** Members admit by invites that they may use: what a member, a joiner and the relay can do against the count. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { fromHex, toHex } from '@static/protocol'
import { GapNoticeSchema, JoinRequestSchema } from '@static/protocol/relay'
import { encodeList, encodeListFrame, listBytes } from '../../src/admitting/invite-list.ts'
import { sealRequest } from '../../src/joining/request.ts'
import { Agent, engine, NAME } from '../mls/support.ts'
import { outsider, Player } from '../support/stage.ts'
import { NAMES, openCrowd, shared } from './crowd.ts'

/** The relay says that it no longer has the messages of a member, and shows this player all else. */
function hideMessages(player: Player, from: Player): void {
  player.hearing = (entry) => {
    if (entry.case !== 'deliverMessage' || toHex(entry.value.sender) !== from.agentId) return undefined
    const position = player.stage.positions[Number(entry.value.index)] ?? assert.fail()
    const { index, hash, slot } = position
    const value = create(GapNoticeSchema, {
      channelId: player.stage.channelId,
      firstIndex: entry.value.index,
      position: { index: BigInt(index), hash, slot: BigInt(slot) },
    })
    player.channel.intake.deliver({ case: 'gap', value })
    return 'lost'
  }
}

test('a member that claims many joiners does not hold the others back from one of them again', async () => {
  const { crowd, stage, invite, joiner } = await openCrowd(3)
  const { claims } = stage.player('mallory').channel.listedInvites
  const claim = async (agents: readonly string[]): Promise<void> => {
    void claims.claim(agents.map((agent) => ({ invite: invite.listed.id, agent })))
    await stage.settle()
  }
  await claim([joiner.agentId])
  await stage.advance(61_000)
  for (let n = 0; n < 65; n++) {
    await claim(Array.from({ length: 16 }, (_, k) => (n * 16 + k).toString(16).padStart(64, '0')))
  }
  await claim([joiner.agentId])
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [joiner.agentId])
})

test("an owner's list that a commit overtakes does not give a newcomer outdated counts", async () => {
  const { crowd, stage, owner, invite, joiner } = await openCrowd(3)
  // The owner's list is on its way while bob admits.
  let held = true
  stage.refuse = (player, { case: kind }) =>
    player === owner && kind === 'sendMessage' && held ? { code: 'unavailable', retryAfterMs: 100 } : undefined
  await crowd.publish(invite, crowd.invite(1))
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(4000, 500)
  assert.deepEqual(crowd.added, [joiner.agentId])
  await joiner.enter()
  await stage.settle()
  held = false
  await stage.advance(10_000, 500)
  for (const { name, channel } of stage.players) {
    assert.equal(channel.listedInvites.invites.length, 2, name)
    assert.equal(channel.listedInvites.count(invite.listed.id), 1, name)
  }
})

test('a member that adds an agent which it has claimed counts the use like all others, however it adds it', async () => {
  for (const restarted of [false, true]) {
    const { stage, invite } = await openCrowd(3)
    const { keyPackage, agentId } = await outsider(stage, 'joiner')
    let bob = stage.player('bob')
    void bob.channel.listedInvites.claims.claim([{ invite: invite.listed.id, agent: toHex(agentId) }])
    await stage.settle()
    if (restarted) bob = bob.restart()
    void bob.channel.committer.commit(() => ({ adds: [keyPackage] }))
    await stage.settle()
    for (const { name, channel } of stage.players)
      assert.equal(channel.listedInvites.count(invite.listed.id), 1, `${name} ${restarted}`)
  }
})

for (const victim of ['carol', 'owner']) {
  test(`the relay hides a claim from ${victim} in a gap: it admits no one too many`, async () => {
    const { crowd, stage, invite } = await openCrowd(1)
    const [first, second] = [await crowd.joiner('j1', invite.keys), await crowd.joiner('j2', invite.keys)]
    const [bob, deceived] = [stage.player('bob'), stage.player(victim)]
    hideMessages(deceived, bob)
    crowd.poll(bob, [first.request])
    await stage.advance(5000, 500)
    assert.deepEqual(crowd.added, [first.agentId])
    // What it does not know is still not known after a restart.
    const restarted = deceived.restart()
    await stage.settle()
    crowd.poll(restarted, [second.request])
    await stage.advance(5000, 500)
    assert.deepEqual(crowd.added, [first.agentId])
    await crowd.publish(invite)
    for (const { name, channel } of stage.players) {
      if (name !== 'j1') assert.equal(channel.listedInvites.count(invite.listed.id), 1, name)
    }
  })
}

test('the relay hides a revocation from a member in a gap: it admits no one until it is told the counts again', async () => {
  const { crowd, stage, joiner } = await openCrowd(2)
  const bob = stage.player('bob')
  hideMessages(bob, crowd.owner)
  await crowd.publish()
  bob.hearing = () => undefined
  crowd.poll(bob, [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [])
  const other = crowd.invite(2)
  await crowd.publish(other)
  crowd.poll(bob, [(await crowd.joiner('other', other.keys)).request])
  await stage.advance(5000, 500)
  assert.equal(crowd.added.length, 1)
})

test('an owner hands the channel over, with lists for now and for a slot to come: its invites admit no one after', async () => {
  const { crowd, stage, owner, invite, joiner } = await openCrowd(3)
  const list = { number: 7, slot: 1_000_000, invites: [invite.listed] }
  const signed = Buffer.concat([encodeList(list), owner.sign(listBytes(stage.channelId, list))])
  void owner.channel.sender.send('invites', encodeListFrame(signed, owner.channel.history.position.slot, [0]))
  await stage.settle()
  const bob = stage.player('bob')
  const [former, next] = [fromHex(owner.agentId), fromHex(bob.agentId)]
  void owner.channel.committer.commit(() => ({ ownership: { owner: former, standby: next, offered: false } }))
  await stage.settle()
  // The relay withholds the list of the new owner.
  stage.refuse = (player, { case: kind }) =>
    player === bob && kind === 'sendMessage' ? { code: 'unavailable', retryAfterMs: 100 } : undefined
  void bob.channel.committer.commit(() => ({ ownership: { owner: next, standby: undefined, offered: false } }))
  await stage.advance(5000, 500)
  for (const { name, channel } of stage.players) {
    assert.equal(channel.owner, bob.agentId, name)
    assert.equal(channel.listedInvites.invites.length, 0, name)
  }
  // Nor does a member take the former owner's list again, even after a restart.
  const carol = stage.player('carol').restart()
  await stage.settle()
  void owner.channel.sender.send('invites', encodeListFrame(signed, owner.channel.history.position.slot, [0]))
  await stage.settle()
  assert.equal(carol.channel.listedInvites.invites.length, 0)
  crowd.poll(carol, [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [])
  // The new owner's own invites admit again.
  stage.refuse = () => undefined
  const other = crowd.invite(2)
  void bob.channel.listedInvites.publish([other.listed])
  await stage.advance(61_000, 500)
  assert.equal(carol.channel.listedInvites.invites[0]?.id, other.listed.id)
  assert.deepEqual(crowd.failures, [])
})

test('a joiner that cannot be added makes a member claim it less and less often', async () => {
  const { crowd, stage, joiner } = await openCrowd(3, 86_400_000)
  stage.refuse = (_, { case: kind }) => (kind === 'sendCommit' ? { code: 'invalid_request' } : undefined)
  const bob = stage.player('bob')
  const before = stage.log.length
  for (let poll = 0; poll < 144; poll++) {
    crowd.poll(bob, [joiner.request])
    await stage.advance(25_000, 12_500)
  }
  const sent = stage.log.slice(before).filter(({ kind, sender }) => kind === 'message' && sender === bob.agentId)
  assert.ok(sent.length < 10, `${sent.length} claims in an hour`)
  stage.refuse = () => undefined
  await stage.advance(3_600_000, 3_600_000)
  crowd.poll(bob, [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [joiner.agentId])
})

test('an agent that has sent anything is not silent, and one that was added again starts afresh', async () => {
  const { crowd, stage, owner, invite } = await openCrowd(9, 30 * 86_400_000)
  const [heard, again] = [await crowd.joiner('heard', invite.keys), await outsider(stage, 'again')]
  const bob = stage.player('bob')
  crowd.poll(bob, [heard.request])
  await stage.advance(5000, 500)
  void bob.channel.listedInvites.claims.claim([{ invite: invite.listed.id, agent: toHex(again.agentId) }])
  await stage.settle()
  void bob.channel.committer.commit(() => ({ adds: [again.keyPackage] }))
  await stage.settle()
  const player = await heard.enter()
  void player.send('its hello is lost')
  void owner.channel.committer.commit(() => ({ removes: [again.agentId] }))
  await stage.settle()
  void owner.channel.committer.commit(() => ({ adds: [again.keyPackage] }))
  await stage.settle()
  stage.now += 8 * 86_400_000
  void shared(owner).sharing.tidy(owner.channel)
  await stage.settle()
  assert.equal(owner.channel.group?.members.has(heard.agentId), true)
  assert.equal(owner.channel.group?.members.has(toHex(again.agentId)), true)
})

test('a member adds a joiner and does not let it in: it asks with a new KeyPackage, and the owner adds it again', async () => {
  const { crowd, stage, invite } = await openCrowd(3)
  const agent = new Agent('joiner')
  const place = { channelId: stage.channelId, name: NAME, owner: fromHex(stage.owner) }
  const ask = (keyPackage: Uint8Array): ReturnType<typeof create<typeof JoinRequestSchema>> => {
    const box = sealRequest(invite.keys, place, { nonce: new Uint8Array(16), keyPackage })
    return create(JoinRequestSchema, { inviteId: invite.keys.inviteId, agentId: agent.agentId, box })
  }
  const [first, second, third] = [await agent.keyPackage(), await agent.keyPackage(), await agent.keyPackage()]
  void stage.player('mallory').channel.committer.commit(() => ({ adds: [first.keyPackage] }))
  await stage.settle()
  // The same request again, or to a member that may not remove it.
  crowd.poll(crowd.owner, [ask(first.keyPackage)])
  crowd.poll(stage.player('bob'), [ask(second.keyPackage)])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [])
  crowd.poll(crowd.owner, [ask(second.keyPackage)])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [toHex(agent.agentId)])
  for (const { name, channel } of stage.players) {
    assert.equal(channel.group?.members.size, NAMES.length + 1, name)
    assert.equal(channel.listedInvites.count(invite.listed.id), 1, name)
  }
  // Once it was heard, the relay cannot have it replaced by one of its other requests.
  const player = new Player(stage, agent)
  const welcome = crowd.welcomeOf(toHex(agent.agentId))
  player.enter(await engine.join(welcome, second.privatePart, agent.key, { name: NAME, invite: invite.keys }))
  void player.send('here')
  await stage.settle()
  crowd.poll(crowd.owner, [ask(third.keyPackage)])
  await stage.settle()
  assert.equal(crowd.added.length, 1)
})
