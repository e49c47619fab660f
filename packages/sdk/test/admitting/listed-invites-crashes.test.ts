/** Members admit by invites that they may use: requests that the relay replays, and uses that a crash must not lose. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { fromHex, toHex } from '@static/protocol'
import { JoinRequestSchema } from '@static/protocol/relay'
import { sealRequest } from '../../src/joining/request.ts'
import type { AgentId } from '../../src/ports/index.ts'
import { NAME } from '../mls/support.ts'
import { outsider, type Player } from '../support/stage.ts'
import { type Crowd, openCrowd, shared } from './crowd.ts'

const DAY_MS = 86_400_000

/** Everybody has heard a joiner. */
function heard({ stage }: Crowd, agent: AgentId): void {
  for (const { channel } of stage.players) {
    channel.listedInvites.hello(agent)
    channel.listedInvites.hellosAnswered([agent])
  }
}

test('the relay replays the request of an agent that has left: no member counts it as another use', async () => {
  const { crowd, stage, invite, joiner } = await openCrowd(3)
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(5000, 500)
  const player = await joiner.enter()
  await stage.settle()
  heard(crowd, joiner.agentId)
  stage.leave(player)
  stage.players.splice(stage.players.indexOf(player), 1)
  await stage.advance(120_000)
  assert.equal(crowd.owner.channel.group?.members.has(joiner.agentId), false)
  // Also after a restart.
  stage.player('carol').restart()
  await stage.settle()
  for (const { name } of stage.players) {
    crowd.poll(stage.player(name), [joiner.request])
    await stage.advance(5000, 500)
  }
  assert.deepEqual(crowd.added, [joiner.agentId])
  for (const { name, channel } of stage.players) assert.equal(channel.listedInvites.count(invite.listed.id), 1, name)
})

for (const isLate of [false, true]) {
  const when = isLate ? 'after it has left' : 'before it leaves'
  test(`a request made before its agent joined in another way is void for a member that missed that and gets it ${when}`, async () => {
    const { crowd, stage, owner, invite } = await openCrowd(3)
    const person = await outsider(stage, 'other')
    const { agentId, keyPackage } = person
    const place = { channelId: stage.channelId, name: NAME, owner: fromHex(stage.owner) }
    const box = sealRequest(invite.keys, place, { nonce: new Uint8Array(16), keyPackage })
    const request = create(JoinRequestSchema, { inviteId: invite.keys.inviteId, agentId, box })
    void owner.channel.committer.commit(() => ({ adds: [keyPackage] }))
    await stage.settle()
    const player = await person.join(crowd.welcomeOf(toHex(agentId)))
    // Its leaf has another key from then on.
    if (!isLate) void player.channel.committer.commit(() => ({}))
    await stage.settle()
    stage.player('bob').restart()
    await stage.settle()
    // Bob waits whether another member is faster.
    if (!isLate) crowd.poll(stage.player('bob'), [request])
    await stage.settle()
    stage.leave(player)
    stage.players.splice(stage.players.indexOf(player), 1)
    await stage.settle()
    if (isLate) crowd.poll(stage.player('bob'), [request])
    await stage.advance(120_000)
    assert.deepEqual(crowd.added, [])
    assert.equal(owner.channel.group?.members.has(toHex(agentId)), false)
  })
}

test('a joiner that was removed before it entered may use its request again', async () => {
  const { crowd, stage, owner, joiner } = await openCrowd(3)
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(5000, 500)
  void owner.channel.committer.commit(() => ({ removes: [fromHex(joiner.agentId)] }))
  await stage.settle()
  crowd.poll(stage.player('carol'), [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [joiner.agentId, joiner.agentId])
})

for (const [what, arrived] of [
  ['arrived', 1],
  ['did not arrive, and a commit comes before it', 0],
] as const) {
  test(`a member is killed when it has claimed, and the claim ${what}: its commit counts for all`, async () => {
    const { stage, invite } = await openCrowd(3)
    const { keyPackage, agentId } = await outsider(stage, 'other')
    let bob = stage.player('bob')
    bob.channel.listedInvites.claims.claim([{ invite: invite.listed.id, agent: toHex(agentId) }]).catch(() => {})
    await bob.channel.idle()
    bob.journal.flush()
    assert.equal(bob.requests.length, 1)
    if (arrived === 0) {
      void stage.player('carol').channel.committer.commit(() => ({}))
      await stage.settleOnly(stage.player('carol'))
    }
    bob = bob.restart(arrived)
    await stage.settle()
    bob = bob.restart()
    await stage.settle()
    void bob.channel.committer.commit(() => ({ adds: [keyPackage] }))
    await stage.settle()
    for (const { name, channel } of stage.players) assert.equal(channel.listedInvites.count(invite.listed.id), 1, name)
  })
}

test('a claim that the relay refuses is forgotten, even on disk', async () => {
  const { stage, invite } = await openCrowd(3)
  const bob = stage.player('bob')
  const claims = (player: Player): number => player.store.load().channels[0]?.claims.length ?? assert.fail()
  stage.refuse = (_, { case: kind }) => (kind === 'sendMessage' ? { code: 'too_large' } : undefined)
  const claim = bob.channel.listedInvites.claims.claim([{ invite: invite.listed.id, agent: 'ab'.repeat(32) }])
  const refused = assert.rejects(claim, { code: 'too_large' })
  await stage.settle()
  await refused
  await stage.settle()
  assert.equal(claims(bob), 0)
})

test('the owner is killed while it removes a silent joiner: the use is returned once', async () => {
  // Before and after the commit arrives, and once more after that.
  for (const kills of [[], [0], [1], [0, 1], [1, 0]]) {
    const { crowd, stage, invite, joiner } = await openCrowd(2, 30 * DAY_MS)
    const { id, expiresAt } = invite.listed
    const record = { id, channel: crowd.owner.channel.id, secret: new Uint8Array(32), expiresAt, maxUses: 2 }
    const issue = { ...record, uses: 0, returned: 0, revoked: false, admit: 'members' as const }
    void shared(crowd.owner).issued.issue({ record: issue, keys: invite.keys })
    crowd.poll(stage.player('bob'), [joiner.request])
    await stage.advance(5000, 500)
    stage.now += 8 * DAY_MS
    const tidy = async (): Promise<void> => {
      const { owner } = crowd
      const { sharing } = shared(owner)
      void sharing.publish(owner.channel).then(() => sharing.tidy(owner.channel))
      for (let turns = 0; turns < 5 && owner.requests.length === 0; turns++) {
        await owner.channel.idle()
        owner.journal.flush()
        await new Promise((resolve) => void setImmediate(resolve))
      }
    }
    for (const arrived of kills) {
      await tidy()
      shared(crowd.owner.restart(arrived))
      await stage.settle()
    }
    for (let more = 0; more < 3; more++) {
      await tidy()
      await stage.settle()
    }
    const what = `killed at ${kills.join()}`
    assert.equal(crowd.owner.channel.group?.members.has(joiner.agentId), false, what)
    assert.deepEqual(
      crowd.owner.store.load().invites.map(({ returned }) => returned),
      [1],
      what,
    )
    for (const { name, channel } of stage.players) {
      assert.equal(channel.listedInvites.invite(id)?.maxUses, 3, `${what}, ${name}`)
      assert.equal(channel.listedInvites.count(id), 1, `${what}, ${name}`)
    }
  }
})
