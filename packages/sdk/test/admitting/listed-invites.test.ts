/** Members admit by invites that they may use: what honest ones do, and what lies change. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromHex, MAX_UNVOUCHED_SIZE, StaticError, toHex } from '@static/protocol'
import { decodeListFrame, encodeList, encodeListFrame, listBytes } from '../../src/admitting/invite-list.ts'
import { sealRequest } from '../../src/joining/request.ts'
import { admitAsMember } from '../../src/admitting/admit.ts'
import { NAME } from '../mls/support.ts'
import { outsider, type Player, Stage } from '../support/stage.ts'
import { Crowd, type Joiner, NAMES, openCrowd, shared } from './crowd.ts'

const DAY_MS = 86_400_000
/** Longer than others leave a joiner to who has claimed it. */
const POLITE_MS = 61_000
/** Everybody is in the same place and counts alike. */
function agree(crowd: Crowd, invite: string, count: number | undefined): void {
  for (const player of crowd.stage.players) {
    assert.equal(player.view, crowd.owner.view, player.name)
    assert.equal(player.channel.listedInvites.count(invite), count, player.name)
  }
}

const requestsOf = (joiners: readonly Joiner[]): Joiner['request'][] => joiners.map(({ request }) => request)

/** Those who were admitted, and said to be too many. */
const beyond = (player: Player): string[] =>
  player
    .told('admitted')
    .filter((event) => event.beyond)
    .map(({ member }) => member)

test('the relay gives one request to two members: the joiner is added once', async () => {
  const { crowd, invite, joiner } = await openCrowd(3)
  for (const name of ['bob', 'carol']) crowd.poll(crowd.stage.player(name), [joiner.request])
  await crowd.stage.advance(4000, 500)
  // Given again, also to the owner: it is in the group.
  for (const player of crowd.stage.players) crowd.poll(player, [joiner.request])
  await crowd.stage.advance(POLITE_MS)
  assert.deepEqual(crowd.added, [joiner.agentId])
  agree(crowd, invite.listed.id, 1)
})

test('the relay says that an invite is used up: no one is stuck, and the joiner gets in later', async () => {
  const { crowd, stage, invite, joiner } = await openCrowd(3)
  stage.refuse = (_, { case: kind }) => (kind === 'sendCommit' ? { code: 'invite_used_up' } : undefined)
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(4000, 500)
  assert.deepEqual(crowd.added, [])
  stage.refuse = () => undefined
  await stage.advance(POLITE_MS)
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [joiner.agentId])
  agree(crowd, invite.listed.id, 1)
})

test('a member for which the channel is too full tries once, and leaves its joiners to others for a while', async () => {
  const { crowd, stage, invite, joiner } = await openCrowd(4)
  const joiners = [joiner, await crowd.joiner('j2', invite.keys), await crowd.joiner('j3', invite.keys)]
  let refused = 0
  const { members } = stage.player('bob').channel.group ?? assert.fail()
  Object.defineProperty(members, 'size', { value: MAX_UNVOUCHED_SIZE })
  stage.refuse = ({ name }, { case: kind }) => {
    if (kind !== 'sendCommit' || name !== 'bob') return undefined
    refused++
    return { code: 'group_full' }
  }
  for (let polls = 0; polls < 3; polls++) {
    crowd.poll(stage.player('bob'), requestsOf(joiners))
    await stage.advance(POLITE_MS)
  }
  assert.equal(refused, 1)
  crowd.poll(crowd.owner, requestsOf(joiners))
  await stage.advance(5000, 500)
  assert.equal(crowd.added.length, 3)
  // Not for good: the owner may have vouched for it.
  stage.refuse = () => undefined
  await stage.advance(600_000, 60_000)
  const late = await crowd.joiner('j4', invite.keys)
  crowd.poll(stage.player('bob'), [late.request])
  await stage.advance(5000, 500)
  assert.equal(crowd.added.length, 4)
})

test('a member that claims a joiner and does nothing holds the others back for a minute, once', async () => {
  const { crowd, stage, invite, joiner } = await openCrowd(3)
  const claims = [{ invite: invite.listed.id, agent: joiner.agentId }]
  const claim = (): void => void stage.player('mallory').channel.listedInvites.claims.claim(claims)
  claim()
  await stage.settle()
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(50_000)
  assert.deepEqual(crowd.added, [])
  claim()
  await stage.advance(POLITE_MS - 50_000)
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [joiner.agentId])
})

test('a member that admits too many: all are told, and the owner removes those beyond the count', async () => {
  const { crowd, stage, invite } = await openCrowd(2)
  const joiners = [await crowd.joiner('j1', invite.keys), await crowd.joiner('j2', invite.keys)]
  const third = await crowd.joiner('j3', invite.keys)
  const mallory = stage.player('mallory')
  Object.defineProperty(mallory.channel.listedInvites, 'count', { value: () => 0 })
  crowd.poll(mallory, requestsOf(joiners))
  await stage.advance(5000, 500)
  crowd.poll(mallory, [third.request])
  await stage.advance(5000, 500)
  assert.equal(crowd.added.length, 3)
  for (const name of ['owner', 'bob', 'carol']) assert.deepEqual(beyond(stage.player(name)), [third.agentId], name)
  // Also after a restart of the owner.
  stage.player('owner').restart()
  await stage.settle()
  void shared(crowd.owner).sharing.tidy(crowd.owner.channel)
  await stage.settle()
  assert.equal(stage.player('bob').channel.group?.members.has(third.agentId), false)
  for (const { agentId } of joiners) assert.equal(stage.player('bob').channel.group?.members.has(agentId), true)
  assert.equal(stage.player('bob').channel.listedInvites.count(invite.listed.id), 2)
})

test('the relay hides a revocation from a member that was away: it learns of it before it can admit', async () => {
  const { crowd, stage, joiner } = await openCrowd(2)
  const bob = stage.player('bob')
  bob.lose()
  await crowd.publish()
  // The request comes first. But bob commits only once its claim is in the log, and the revocation is before that.
  crowd.poll(bob, [joiner.request])
  stage.now += 3000
  bob.awake()
  bob.resume()
  await stage.settle()
  await stage.advance(5000)
  assert.deepEqual(bob.channel.listedInvites.invites, [])
  assert.deepEqual(crowd.added, [])
})

test('a member admits by a revoked invite: all are told, and the owner removes the newcomer', async () => {
  const { crowd, stage, invite, joiner } = await openCrowd(2)
  await crowd.publish()
  const mallory = stage.player('mallory')
  Object.defineProperty(mallory.channel.listedInvites, 'invite', { value: () => invite.listed })
  Object.defineProperty(mallory.channel.listedInvites, 'count', { value: () => 0 })
  crowd.poll(mallory, [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [joiner.agentId])
  for (const name of ['owner', 'bob', 'carol']) assert.deepEqual(beyond(stage.player(name)), [joiner.agentId], name)
  void shared(crowd.owner).sharing.tidy(crowd.owner.channel)
  await stage.settle()
  assert.equal(stage.player('bob').channel.group?.members.has(joiner.agentId), false)
})

test('a list that is older, of another channel or not signed by the owner is ignored', async () => {
  const crowd = await Crowd.start(NAMES)
  const { stage } = crowd
  const listOf = ({ store }: Player): Uint8Array => store.load().channels[0]?.inviteList?.list ?? assert.fail()
  const [open, revoked] = [crowd.invite(2), crowd.invite(2)]
  await crowd.publish(open, revoked)
  const old = listOf(stage.player('bob'))
  await crowd.publish(open)
  const current = listOf(stage.player('bob'))
  const elsewhere = await Crowd.start(NAMES)
  for (let number = 0; number < 3; number++) await elsewhere.publish(elsewhere.invite(9))
  const later = { number: 9, slot: 0, invites: [open.listed] }
  const signature = crowd.owner.sign(listBytes(stage.channelId, later))
  const early = { ...later, slot: crowd.owner.channel.history.position.slot + 1 }
  const earlySigned = Buffer.concat([encodeList(early), crowd.owner.sign(listBytes(stage.channelId, early))])
  const changed = (at: number): Uint8Array => current.map((byte, index) => (index === at ? byte ^ 4 : byte))
  const frames = {
    'an older one': encodeListFrame(old, 0, [0, 0]),
    'of another channel': encodeListFrame(listOf(elsewhere.owner), 0, [0]),
    'a higher number': encodeListFrame(changed(7), 0, [0]),
    'another slot': encodeListFrame(Buffer.concat([encodeList({ ...later, slot: 99 }), signature]), 0, [0]),
    'of a slot to come': encodeListFrame(earlySigned, 0, [0]),
    'more uses': encodeListFrame(changed(7).with(17 + 59, 99), 0, [0]),
    'of the same number': encodeListFrame(changed(17 + 59), 0, [0]),
    // A lie about the count changes nothing for who knows it.
    'another count': encodeListFrame(current, 9, [2]),
    'too short': encodeListFrame(current.subarray(1), 0, [0]),
    'too long': encodeListFrame(current, 0, [0, 0]),
  }
  for (const [what, frame] of Object.entries(frames)) {
    void stage.player('mallory').channel.sender.send('invites', frame)
    await stage.settle()
    for (const name of ['owner', 'bob', 'carol']) {
      assert.deepEqual(toHex(listOf(stage.player(name))), toHex(current), `${what}, ${name}`)
      assert.equal(stage.player(name).channel.listedInvites.count(open.listed.id), 0, `${what}, ${name}`)
    }
  }
  for (const bytes of [0, 1, 16, 17, 100].map((length) => new Uint8Array(length).fill(17))) {
    assert.equal(decodeListFrame(bytes), undefined)
  }
})

test('a member that loses a slot claims again, so that all count its use', async () => {
  const { crowd, stage, invite } = await openCrowd(5)
  const joiners = [await crowd.joiner('j1', invite.keys), await crowd.joiner('j2', invite.keys)]
  const [bob, carol] = [stage.player('bob'), stage.player('carol')]
  for (const [n, player] of [bob, carol].entries()) crowd.poll(player, requestsOf(joiners.slice(n, n + 1)))
  // Both claims are in the log before either commits.
  const held = new Set<string>()
  stage.refuse = ({ name }, { case: kind }) => {
    if (kind !== 'sendCommit') return undefined
    held.add(name)
    return { code: 'unavailable', retryAfterMs: 1000 }
  }
  for (let seconds = 0; seconds < 60 && held.size < 2; seconds++) await stage.advance(1000, 100)
  assert.deepEqual([...held].sort(), ['bob', 'carol'])
  stage.refuse = () => undefined
  await stage.advance(10_000, 1000)
  assert.equal(crowd.added.length, 2)
  agree(crowd, invite.listed.id, 2)
})

test('a claim counts only in its own epoch', async () => {
  const { crowd, stage, invite } = await openCrowd(5)
  const { keyPackage, agentId } = await outsider(stage, 'joiner')
  const bob = stage.player('bob')
  void bob.channel.listedInvites.claims.claim([{ invite: invite.listed.id, agent: toHex(agentId) }])
  await stage.settle()
  void stage.player('carol').channel.committer.commit(() => ({}))
  await stage.settle()
  void bob.channel.committer.commit(() => ({ adds: [keyPackage] }))
  await stage.settle()
  assert.equal(bob.channel.group?.members.size, NAMES.length + 1)
  agree(crowd, invite.listed.id, 0)
})

test('a request with a token of another channel, or with an expired or unknown invite, is refused', async () => {
  const crowd = await Crowd.start(NAMES)
  const { stage } = crowd
  const [open, short, unknown] = [crowd.invite(2), crowd.invite(2, 1000), crowd.invite(2)]
  await crowd.publish(open, short)
  const late = await crowd.joiner('late', short.keys)
  const stranger = await crowd.joiner('stranger', unknown.keys)
  const { keyPackage, agentId } = await outsider(stage, 'elsewhere')
  const place = { channelId: new Uint8Array(16), name: NAME, owner: fromHex(stage.owner) }
  const box = sealRequest(open.keys, place, { nonce: new Uint8Array(16), keyPackage })
  const request = { ...late.request, inviteId: open.keys.inviteId, agentId, box }
  stage.now += 2000
  const { owner } = crowd
  const requests = [late.request, stranger.request, request]
  const refused = await admitAsMember({ context: owner } as never, owner.channel, requests)
  const codes = refused.map(({ error }) => StaticError.from(error).code)
  assert.deepEqual(codes.toSorted(), ['invite_expired', 'invite_invalid', 'invite_invalid'])
  assert.deepEqual(crowd.added, [])
})

test('a removed member with the relay shows an old group: the owner never confirms it', async () => {
  const stage = await Stage.start(['owner', 'bob', 'mallory'], { apart: ['mallory'] })
  const mallory = stage.apart.get('mallory') ?? assert.fail()
  const owner = stage.player('owner')
  void owner.channel.committer.commit(() => ({ removes: [mallory.agentId] }))
  await stage.settle()
  const newcomer = await outsider(stage, 'newcomer')
  const { welcomes } = await mallory.commit({ adds: [newcomer.keyPackage] })
  const shown = await newcomer.join(welcomes[0]?.welcome ?? assert.fail())
  await stage.settle()
  assert.equal(shown.channel.isConfirmed, false)
  void owner.send('in the real group')
  await stage.settle()
  assert.equal(shown.channel.isConfirmed, false)
  assert.deepEqual(shown.told('confirmed'), [])
})

test('a newcomer that another member added is confirmed by any message or commit of the owner, even after a restart', async () => {
  for (const how of ['message', 'commit'] as const) {
    const { crowd, stage, joiner } = await openCrowd(2)
    crowd.poll(stage.player('bob'), [joiner.request])
    await stage.advance(5000, 500)
    let player = await joiner.enter()
    void stage.player('carol').send('not the owner')
    await stage.settle()
    player = player.restart()
    await stage.settle()
    assert.equal(player.channel.isConfirmed, false)
    if (how === 'message') void crowd.owner.send('the owner')
    else void crowd.owner.channel.committer.commit(() => ({}))
    await stage.settle()
    assert.equal(player.channel.isConfirmed, true, how)
    assert.equal(player.told('confirmed').length, 1)
    player = player.restart()
    await stage.settle()
    assert.equal(player.channel.isConfirmed, true, how)
  }
})

test('the owner removes a joiner that is silent for a week and returns the use; one that says hello late stays', async () => {
  const crowd = await Crowd.start(NAMES)
  const { stage, owner } = crowd
  const invite = crowd.invite(2, 30 * DAY_MS)
  const { issued, sharing } = shared(owner)
  const { id, expiresAt } = invite.listed
  const record = { id, channel: owner.channel.id, secret: new Uint8Array(32), expiresAt, maxUses: 2 }
  const issue = { ...record, uses: 0, returned: 0, revoked: false, admit: 'members' as const }
  void issued.issue({ record: issue, keys: invite.keys })
  await crowd.publish(invite)
  const [late, silent] = [await crowd.joiner('late', invite.keys), await crowd.joiner('silent', invite.keys)]
  crowd.poll(stage.player('bob'), requestsOf([late, silent]))
  await stage.advance(5000, 500)
  agree(crowd, id, 2)
  stage.now += 6 * DAY_MS
  for (const { channel } of stage.players) channel.listedInvites.hello(late.agentId)
  stage.now += DAY_MS
  void sharing.tidy(owner.channel)
  // It is on disk before the commit.
  for (let turns = 0; turns < 3; turns++) await stage.settle()
  const { members } = stage.player('carol').channel.group ?? assert.fail()
  assert.equal(members.has(late.agentId), true)
  assert.equal(members.has(silent.agentId), false)
  assert.equal(issued.get(id)?.record.returned, 1)
  for (const { channel } of stage.players) {
    assert.equal(channel.listedInvites.invite(id)?.maxUses, 3)
    assert.equal(channel.listedInvites.count(id), 2)
  }
})

test('a member is killed at any step of an admission: the joiner comes in once', async () => {
  // Each request that arrives, and each write before it, is a step.
  for (let step = 0; step < 8; step++) {
    for (const arrived of [0, 1]) {
      const crowd = await Crowd.start(['owner', 'bob', 'carol'], { seed: 1 + step })
      const { stage } = crowd
      const invite = crowd.invite(1)
      await crowd.publish(invite)
      const joiner = await crowd.joiner('joiner', invite.keys)
      crowd.poll(stage.player('bob'), [joiner.request])
      stage.now += 3000
      for (const player of stage.players) player.awake()
      let steps = 0
      stage.refuse = (player, { case: kind }) => {
        if (player.name !== 'bob' || (kind !== 'sendMessage' && kind !== 'sendCommit')) return undefined
        // What is under way is lost, and bob is killed before or after this request arrives.
        return steps++ >= step ? { code: 'unavailable', retryAfterMs: 60_000 } : undefined
      }
      await stage.settle()
      stage.refuse = () => undefined
      stage.player('bob').restart(arrived)
      await stage.advance(POLITE_MS)
      for (const player of stage.players) crowd.poll(player, [joiner.request])
      await stage.advance(POLITE_MS)
      assert.deepEqual(crowd.added, [joiner.agentId], `step ${step}, ${arrived} arrived`)
      agree(crowd, invite.listed.id, 1)
      const player = await joiner.enter()
      await stage.advance(1000)
      assert.equal(player.channel.listedInvites.count(invite.listed.id), 1)
      if (steps <= step && arrived === 1) return
    }
  }
  assert.fail('The admission has more steps than expected.')
})
