/** Membership: commits, Welcomes, removal, leaving, and what cannot be done with them. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { maxCommitBytes, toHex } from '@static/protocol'
import { LeaveNoticeSchema } from '@static/protocol/relay'
import { type Agent, makeKey, Refused, signRoster, signVouch } from '@static/testkit/agent'
import { admitJoiner, askToJoin, makeToken } from '../support/joining.ts'
import { makeKeyPackage } from '../support/key-package.ts'
import type { Way } from '@static/testkit/relay'
import { code, freshName, Stage, type StageOptions } from './stage.ts'

/** How often a claim at another node may come too late, on a busy machine. */
const CLAIMS = 20

export function membershipScenarios(way: Way, options: () => Promise<StageOptions> = async () => ({})): void {
  describe(`membership over ${way}`, () => {
    let stage: Stage
    let nodes: number | undefined
    before(async () => {
      const chosen = await options()
      nodes = chosen.nodes
      stage = await Stage.open(way, chosen)
    })
    after(() => stage.close())

    test('a channel is created once; the same request gets the same response again', async () => {
      const owner = await stage.connect('owner')
      const name = freshName()
      const channelId = randomBytes(16)
      const welcome = randomBytes(100)
      const first = await owner.request('createChannel', { name, channelId, welcome })
      const again = await owner.request('createChannel', { name, channelId, welcome: randomBytes(10) })
      assert.deepEqual(again, first)
      assert.deepEqual(Buffer.from(again.welcome), welcome)
      const other = { name, channelId: randomBytes(16), welcome }
      await assert.rejects(owner.request('createChannel', other), code('channel_exists'))
      await assert.rejects(owner.request('createChannel', { ...other, name: 'No/Good' }), code('channel_error'))
      const guest = await stage.connect()
      await assert.rejects(guest.request('createChannel', { ...other, name: freshName() }), code('api_key_required'))
    })

    test('a KeyPackage is uploaded, handed out once, and used to add its agent', async () => {
      const { channel, owner } = await stage.cast(0)
      // Of the same account, which may claim all that are left.
      const bob = await stage.connect('owner')
      const uploaded = new Set<string>()
      const upload = async (): Promise<number> => {
        const keyPackage = makeKeyPackage(bob.key.publicKey)
        uploaded.add(toHex(keyPackage))
        return (await bob.request('uploadKeyPackage', { keyPackages: [keyPackage] })).held
      }
      assert.equal(await upload(), 1)
      const foreign = makeKeyPackage(makeKey().publicKey)
      await assert.rejects(bob.request('uploadKeyPackage', { keyPackages: [foreign] }), code('invalid_request'))
      const wanted = { channelId: channel, agentId: bob.id }
      await assert.rejects(bob.request('addMember', wanted), code('not_found'))
      const claim = async (): Promise<void> => {
        const { keyPackage } = await owner.request('addMember', wanted)
        assert.ok(uploaded.delete(toHex(keyPackage)), 'A KeyPackage was handed out twice.')
      }
      for (let tries = 1; uploaded.size === tries; tries++) {
        try {
          await claim()
        } catch (error) {
          // With one node, nothing comes too late.
          if (nodes === undefined || tries === CLAIMS) throw error
          code('key_package_unavailable')(error)
          await upload()
        }
      }
      while ((await bob.next('keyPackagesLow')).held > 0) await claim()
      await assert.rejects(claim(), code('key_package_unavailable'))
      await bob.request('resume', {})
      await owner.commit(channel, 1n, { adds: [bob.id] })
      assert.deepEqual((await bob.next('deliverWelcome')).channelId, channel)
    })

    test('a Welcome for an offline joiner is kept until the joiner acknowledges it', async () => {
      const owner = await stage.connect('owner')
      const channel = await owner.createChannel(freshName())
      const key = makeKey()
      await owner.commit(channel, 0n, { adds: [key.id] })
      for (let time = 0; time < 2; time++) {
        const joiner = await stage.connect('joiner', key)
        await joiner.request('resume', {})
        const welcome = await joiner.next('deliverWelcome')
        assert.equal(welcome.position?.index, 1n)
        if (time === 1) await joiner.request('ack', { positions: [{ channelId: channel, index: 1n }] })
        joiner.close()
        await joiner.ended
      }
      const joiner = await stage.connect('joiner', key)
      await joiner.request('resume', {})
      await owner.send(channel, 1n, 1n)
      await joiner.next('deliverMessage')
      assert.ok(!joiner.pushes.some(({ body }) => body.case === 'deliverWelcome'))
    })

    test('a Welcome can follow its commit, from the sender of the commit and for an agent it added', async () => {
      const { channel, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      const joiner = await stage.connect()
      await joiner.request('resume', {})
      await owner.commit(channel, 1n, { adds: [joiner.id] }, { welcomes: false })
      const late = { channelId: channel, slot: 1n, welcome: { agentId: joiner.id, welcome: randomBytes(50) } }
      await assert.rejects(bob.request('sendWelcome', late), code('not_allowed'))
      const wrong = { ...late, welcome: { agentId: bob.id, welcome: randomBytes(50) } }
      await assert.rejects(owner.request('sendWelcome', wrong), code('invalid_request'))
      await owner.request('sendWelcome', late)
      assert.equal((await joiner.next('deliverWelcome')).slot, 1n)
    })

    test('one commit wins a slot; the loser gets the head and a retry time', async () => {
      const { channel, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      const results = await Promise.allSettled([owner.commit(channel, 1n), bob.commit(channel, 1n)])
      const lost = results.filter((result) => result.status === 'rejected')
      assert.equal(lost.length, 1)
      const error: unknown = lost[0]?.reason
      assert.ok(error instanceof Refused)
      assert.equal(error.code, 'epoch_mismatch')
      assert.equal(error.refusal.head, 2n)
      assert.ok((error.refusal.retryAfterMs ?? 0) > 0)
      // Nothing of the loser is kept.
      const { channels } = await owner.request('resume', { channelIds: [channel] })
      assert.equal(channels[0]?.lastIndex, 2n)
    })

    test('a repeated commit gets the same response again', async () => {
      const { channel, owner } = await stage.cast(1)
      const messageId = randomBytes(16)
      const first = await owner.commit(channel, 1n, {}, { messageId })
      assert.deepEqual(await owner.commit(channel, 1n, {}, { messageId }), first)
    })

    test('a removed member gets the commit that removes it and nothing after', async () => {
      const { channel, owner, members } = await stage.cast(2)
      const [bob, carol] = members as [Agent, Agent]
      const { index } = await owner.commit(channel, 1n, { removes: [bob.id] })
      await owner.send(channel, 2n, 1n)
      await carol.next('deliverMessage')
      const commit = await bob.next('deliverCommit')
      assert.equal(commit.index, index)
      await assert.rejects(bob.send(channel, 2n, 1n), code('removed'))
      await bob.request('ack', { positions: [{ channelId: channel, index }] })
      const { channels } = await bob.request('resume', { channelIds: [channel] })
      assert.equal(channels[0]?.error?.code, 'removed')
      assert.ok(!bob.pushes.some(({ body }) => body.case === 'deliverMessage'))
    })

    test('only the owner can remove other members, and no member can remove the owner', async () => {
      const { channel, owner, members } = await stage.cast(2)
      const [bob, carol] = members as [Agent, Agent]
      await assert.rejects(bob.commit(channel, 1n, { removes: [carol.id] }), code('not_allowed'))
      await assert.rejects(bob.commit(channel, 1n, { removes: [owner.id] }), code('not_allowed'))
      const { channels } = await bob.request('resume', { channelIds: [channel] })
      assert.equal(channels[0]?.head, 1n)
    })

    test('a declaration that the sender did not sign is refused', async () => {
      const { channel, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      const place = { channelId: channel, slot: 1n, messageId: randomBytes(16), commit: randomBytes(50) }
      const declaration = owner.declaration(place, { adds: [randomBytes(32)] })
      await assert.rejects(bob.request('sendCommit', { ...place, declaration }), code('invalid_request'))
    })

    test('an agent leaves with only its key, and any member may then remove it', async () => {
      const { channel, owner, members } = await stage.cast(2)
      const [bob, carol] = members as [Agent, Agent]
      const notice = bob.notice(channel, 1n)
      const { index } = await bob.request('leave', { channelId: channel, notice })
      assert.equal((await carol.next('deliverLeave')).index, index)
      assert.equal((await owner.next('deliverLeave')).notice?.slot, 1n)
      await assert.rejects(carol.commit(channel, 1n, { removes: [bob.id] }), code('invalid_request'))
      await carol.commit(channel, 1n, { removes: [bob.id], leaveNotices: [notice] })
      await assert.rejects(bob.send(channel, 2n, 1n), code('removed'))
      await assert.rejects(
        owner.request('leave', { channelId: channel, notice: owner.notice(channel, 2n) }),
        code('not_allowed'),
      )
    })

    test('a forged or replayed notice makes no agent leave', async () => {
      const { channel, owner, members } = await stage.cast(2)
      const [bob, carol] = members as [Agent, Agent]
      const notice = bob.notice(channel, 1n)
      await assert.rejects(carol.request('leave', { channelId: channel, notice }), code('invalid_request'))
      const forged = create(LeaveNoticeSchema, { ...notice, signature: carol.notice(channel, 1n).signature })
      await assert.rejects(bob.request('leave', { channelId: channel, notice: forged }), code('invalid_request'))
      await owner.commit(channel, 1n)
      await assert.rejects(bob.request('leave', { channelId: channel, notice }), code('epoch_mismatch'))
      assert.equal((await bob.send(channel, 2n, 1n)).index, 3n)
    })

    test('a garbage commit takes its slot and nothing else: the members continue', async () => {
      const { channel, owner, members } = await stage.cast(2)
      const [bob, carol] = members as [Agent, Agent]
      await bob.commit(channel, 1n)
      assert.equal((await carol.next('deliverCommit')).slot, 1n)
      assert.equal((await carol.send(channel, 2n, 1n)).index, 3n)
      await owner.commit(channel, 2n)
    })

    test('a false roster is undone by the owner, and its sender is barred until the owner lifts the bar', async () => {
      const { channel, owner, members } = await stage.cast(2)
      const [bob, carol] = members as [Agent, Agent]
      const phantom = makeKey()
      await bob.commit(channel, 1n, { adds: [phantom.id] })
      const voted = await owner.request('rejectCommit', { channelId: channel, slot: 1n })
      assert.equal(voted.rejected, true)
      const told = await carol.next('commitRejected')
      assert.deepEqual(told.sender, bob.id)
      assert.deepEqual(told.undoneAdds, [phantom.id])
      await assert.rejects(bob.commit(channel, 2n), code('not_allowed'))
      await assert.rejects(bob.request('liftBar', { channelId: channel, agentId: bob.id }), code('not_allowed'))
      await owner.request('liftBar', { channelId: channel, agentId: bob.id })
      await bob.next('barLifted')
      await bob.commit(channel, 2n)
      const ghost = await stage.connect(undefined, phantom)
      const { channels } = await ghost.request('resume', { channelIds: [channel] })
      assert.equal(channels[0]?.error?.code, 'not_found')
    })

    test('without the owner, more than half of the members that it vouches for can reject a commit', async () => {
      const { channel, members } = await stage.cast(3)
      const [bob, carol, dave] = members as [Agent, Agent, Agent]
      await bob.commit(channel, 1n, { adds: [makeKey().id] })
      const vote = { channelId: channel, slot: 1n }
      assert.deepEqual(
        { ...(await carol.request('rejectCommit', vote)) },
        {
          $typeName: 'static.relay.v1.RejectCommitResponse',
          rejected: false,
          votes: 1,
          needed: 3,
        },
      )
      assert.equal((await carol.request('rejectCommit', vote)).votes, 1)
      assert.equal((await dave.request('rejectCommit', vote)).rejected, false)
      assert.equal((await bob.request('rejectCommit', vote)).rejected, true)
      await assert.rejects(bob.commit(channel, 2n), code('not_allowed'))
    })

    test('the owner vouches for a member, which then has a vote; no one else can, and only with the owner’s signature', async () => {
      const { channel, owner, members } = await stage.cast(2)
      const [bob, carol] = members as [Agent, Agent]
      const dave = await stage.connect()
      await dave.request('resume', {})
      await bob.commit(channel, 1n, { adds: [dave.id] })
      await dave.next('deliverWelcome')
      const vouch = (agent: Agent, slot = 2n, ids = [dave.id]): Promise<unknown> => {
        const claim = { channelId: channel, slot, agentIds: ids }
        return agent.request('vouch', { ...claim, signature: signVouch(agent.key, claim) })
      }
      await assert.rejects(vouch(bob), code('not_allowed'))
      await assert.rejects(vouch(dave), code('api_key_required'))
      await assert.rejects(vouch(owner, 1n), code('epoch_mismatch'))
      await assert.rejects(vouch(owner, 2n, [makeKey().id]), code('invalid_request'))
      await assert.rejects(
        vouch(
          owner,
          2n,
          Array.from({ length: 251 }, () => dave.id),
        ),
        code('invalid_request'),
      )
      const signed = signVouch(bob.key, { channelId: channel, slot: 2n, agentIds: [dave.id] })
      const forged = { channelId: channel, slot: 2n, agentIds: [dave.id], signature: signed }
      await assert.rejects(owner.request('vouch', forged), code('invalid_request'))
      await assert.rejects(
        bob.commit(channel, 2n, { adds: [makeKey().id], vouches: [dave.id] }),
        code('invalid_request'),
      )
      await vouch(owner)
      await carol.commit(channel, 2n)
      const voted = await dave.request('rejectCommit', { channelId: channel, slot: 2n })
      assert.deepEqual([voted.votes, voted.needed], [1, 3])
      await assert.rejects(dave.request('rejectCommit', { channelId: channel, slot: 1n }), code('not_allowed'))
    })

    test('the owner resets the roster: phantom members get nothing more, and undone members resume', async () => {
      const { channel, owner, members } = await stage.cast(2)
      const [bob, carol] = members as [Agent, Agent]
      const ghost = await stage.connect()
      await ghost.request('resume', {})
      await bob.commit(channel, 1n, { adds: [ghost.id] })
      await ghost.next('deliverWelcome')
      await ghost.request('resume', { channelIds: [channel] })
      const dave = await stage.connect()
      await dave.request('resume', {})
      await owner.commit(channel, 2n, { removes: [carol.id], adds: [dave.id] })
      const { position } = await dave.next('deliverWelcome')
      assert.ok(position)
      const reset = (agent: Agent, ids: Uint8Array[], at = position): Promise<unknown> => {
        const named = { channelId: channel, agentIds: ids, vouched: [] }
        const signature = signRoster(agent.key, { ...at, ...named })
        return agent.request('resetRoster', { ...named, position: at, signature })
      }
      const group = [owner.id, bob.id, carol.id, dave.id]
      await assert.rejects(reset(bob, group), code('not_allowed'))
      await assert.rejects(reset(owner, group, { ...position, slot: 2n }), code('epoch_mismatch'))
      await assert.rejects(reset(owner, [bob.id]), code('invalid_request'))
      const forged = { channelId: channel, position, agentIds: group, signature: randomBytes(64) }
      await assert.rejects(owner.request('resetRoster', forged), code('invalid_request'))
      await reset(owner, group)
      for (const agent of [bob, carol, ghost]) {
        const told = await agent.next('rosterReset')
        assert.deepEqual([told.dropped, told.returned], [[ghost.id], [carol.id]])
      }
      await carol.request('resume', { channelIds: [channel] })
      const { index } = await bob.send(channel, 3n, 1n)
      assert.equal((await carol.next('deliverMessage')).index, index)
      const { channels: none } = await ghost.request('resume', { channelIds: [channel] })
      assert.equal(none[0]?.error?.code, 'not_found')
    })

    test('a deleted channel is gone for all members, and its name is free', async () => {
      const { channel, name, owner, members } = await stage.cast(1)
      const [bob] = members as [Agent]
      await assert.rejects(
        bob.request('deleteChannel', { channel: { case: 'channelId', value: channel } }),
        code('not_found'),
      )
      await owner.request('deleteChannel', { channel: { case: 'name', value: name } })
      assert.equal((await bob.next('channelDeleted')).name, name)
      await assert.rejects(bob.send(channel, 1n, 1n), code('not_found'))
      await owner.request('createChannel', { name, channelId: randomBytes(16), welcome: randomBytes(10) })
    })

    test('a joiner asks while all are away; after a restart two members admit it, and one use is counted', async () => {
      const { channel, owner, members } = await stage.cast(2)
      const token = makeToken()
      const invite = { channelId: channel, ...token, expiresAtMs: BigInt(Date.now() + 3_600_000), members: true }
      await owner.request('registerInvite', { ...invite, maxUses: 1 })
      for (const agent of [owner, ...members]) agent.close()
      const joiner = await stage.connect()
      const box = randomBytes(1000)
      await askToJoin(joiner, token, box)
      joiner.close()
      await stage.relay.restart()
      const [bob, carol] = await Promise.all(members.map(({ key }, at) => stage.connect(`member-${at}`, key)))
      assert.ok(bob && carol)
      for (const agent of [bob, carol]) {
        const { requests } = await agent.request('pollJoinRequests', { channelId: channel, waitMs: 60_000 })
        assert.deepEqual(
          requests.map((request) => Buffer.from(request.box)),
          [box],
        )
      }
      const other = makeKey()
      const admissions = [bob, carol].map((agent) => admitJoiner(agent, channel, 1n, joiner.id, token))
      const lost = (await Promise.allSettled(admissions)).filter((result) => result.status === 'rejected')
      assert.equal(lost.length, 1)
      assert.ok(code('epoch_mismatch')(lost[0]?.reason))
      await assert.rejects(admitJoiner(carol, channel, 2n, other.id, token), code('invite_used_up'))
      const again = await stage.connect(undefined, joiner.key)
      await again.request('resume', {})
      assert.deepEqual((await again.next('deliverWelcome')).channelId, channel)
      // A rejection returns the use.
      const back = await stage.connect('owner', owner.key)
      await back.request('rejectCommit', { channelId: channel, slot: 1n })
      await admitJoiner(back, channel, 2n, other.id, token)
    })

    test('a commit with Welcomes at the size limit is accepted, one byte more is not', async () => {
      const { channel, owner } = await stage.cast(0)
      const joiners = Array.from({ length: 10 }, () => makeKey().id)
      const limit = maxCommitBytes(11)
      const send = (extra: number): Promise<unknown> => {
        const place = { channelId: channel, slot: 1n, messageId: randomBytes(16), commit: randomBytes(1000 + extra) }
        const each = Math.floor((limit - 1000) / joiners.length)
        const rest = limit - 1000 - each * joiners.length
        return owner.request('sendCommit', {
          ...place,
          declaration: owner.declaration(place, { adds: joiners }),
          welcomes: joiners.map((agentId, at) => ({ agentId, welcome: randomBytes(each + (at === 0 ? rest : 0)) })),
        })
      }
      await assert.rejects(send(1), code('too_large'))
      await send(0)
    })
  })
}
