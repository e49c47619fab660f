/** Forks: one that is found while an agent joins, one that its application accepts, and one that others hide behind. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StaticError } from '@static/protocol'
import { addMembers } from '../../src/admitting/adding.ts'
import { newChannel } from '../../src/agent/founding.ts'
import { removeMember } from '../../src/agent/owning.ts'
import { Forks } from '../../src/channel/log/forks.ts'
import { Standing } from '../../src/channel/standing.ts'
import { Apart } from '../support/apart.ts'
import { outsider, Stage } from '../support/stage.ts'

const MEMBER = 'ab'.repeat(32)

test('a fork stops an agent that joins once it has joined, and only then is its application told', () => {
  const nowhere = { index: 0, hash: new Uint8Array(), slot: 0 }
  const events: string[] = []
  let refused = 0
  const channel = {
    name: 'acme/fork/one',
    nameOf: (member: string) => member,
    turn: { touch: () => {} },
    sender: { rejectQueued: () => void refused++ },
    listedInvites: { claims: { end: () => {} } },
  }
  const standing = new Standing(channel as never, newChannel('01', 'acme/fork/one', MEMBER, 'joining', nowhere).record)
  const forks = new Forks({ emit: ({ type }) => void events.push(type) }, { ...channel, standing } as never)
  forks.found(MEMBER, 'seen')
  // It may send, which is for its hello: nothing else, and no commit.
  assert.equal(standing.isTalking, true)
  assert.equal(standing.refusal()?.code, 'fork_detected')
  assert.equal(refused, 1)
  assert.deepEqual(events, [])
  standing.set({ state: 'joined' })
  forks.joined()
  assert.equal(standing.isTalking, false)
  assert.equal(refused, 2)
  assert.deepEqual(events, ['fork_detected'])
})

test('in a fork, adding a member fails at once, even while a claim of this agent waits', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
  const [bob, mal] = [stage.player('bob'), new Apart(stage, 'mal')]
  const dan = await outsider(stage, 'dan')
  const eve = await outsider(stage, 'eve')
  const claims = [{ invite: 'ab'.repeat(16), agent: Buffer.from(dan.agentId).toString('hex') }]
  const { listedInvites } = bob.channel
  // As `admitAsMember` does. The relay is busy for a moment.
  stage.refuse = (player, body) =>
    player === bob && body.case === 'sendMessage' ? { code: 'rate_limited', retryAfterMs: 2000 } : undefined
  listedInvites.inTurn(() => listedInvites.claims.claim(claims)).catch(() => {})
  await stage.settleWithPrograms()
  stage.refuse = () => undefined
  const { index } = stage.position
  mal.say(mal.frame('I saw another log', { seen: { index, hash: Buffer.alloc(32, 7) } }))
  await stage.settleWithPrograms()
  const [told] = bob.told('fork_detected')
  assert.deepEqual([Buffer.from(told?.identity ?? []).toString(), bob.told('fork_detected').length], ['mal', 1])
  // Whoever sends reads which member it is, and what its words and this agent's words tell.
  const name = `mal (${told?.member.slice(0, 8)}…)`
  await assert.rejects(bob.send('hi'), ({ message }: StaticError) => {
    assert.ok(message.startsWith(`Channel ${bob.channel.name}: ${name} says it has seen a different history`), message)
    assert.match(message, /If the words are equal, .* is wrong.*If they differ, the relay/)
    return true
  })
  let outcome = 'waits'
  addMembers({ context: bob, requests: undefined as never }, bob.channel, [eve.keyPackage], {
    acceptNewKey: false,
  }).then(
    () => (outcome = 'added'),
    (error: unknown) => (outcome = StaticError.from(error).code),
  )
  await stage.settleWithPrograms()
  await stage.advance(3_600_000, 60_000)
  await stage.settleWithPrograms()
  assert.equal(outcome, 'fork_detected')
})

test('a member whose fork was accepted cannot stop the channel again, whatever it says next', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), new Apart(stage, 'mal')]
  mal.say(mal.frame('I saw another log', { seen: { index: stage.position.index, hash: Buffer.alloc(32, 7) } }))
  await stage.settleWithPrograms()
  for (const { channel } of [ann, bob]) channel.acceptFork()
  const lies = [
    mal.frame('a message is missing', { counter: mal.counter + 5 }),
    mal.frame('my last one was another', { previous: Buffer.alloc(32, 7) }),
    mal.frame('another log again', { seen: { index: stage.position.index, hash: Buffer.alloc(32, 8) } }),
  ]
  for (const lie of lies) {
    mal.say(lie)
    await stage.settleWithPrograms()
    const sent = bob.send('I go on')
    await stage.settle()
    await sent
  }
  assert.equal(bob.told('fork_detected').length, 1)
})

test('a member whose fork was accepted stays accepted when its leaf is replaced, and no longer once it was removed', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal'], { apart: ['mal'] })
  const [ann, bob, mal] = [stage.player('ann'), stage.player('bob'), new Apart(stage, 'mal')]
  mal.say(mal.frame('I saw another log', { seen: { index: stage.position.index, hash: Buffer.alloc(32, 7) } }))
  await stage.settleWithPrograms()
  for (const { channel } of [ann, bob]) channel.acceptFork()
  const accepted = (): (boolean | undefined)[] =>
    [ann, bob].map(({ channel }) => channel.history.sender(mal.agentId)?.accepted)
  const commit = async (change: object): Promise<void> => {
    const done = ann.channel.committer.commit(() => change)
    await stage.settle()
    await done
  }
  const { keyPackage } = await mal.mls.keyPackage(Date.now())
  await commit({ adds: [keyPackage], removes: [mal.mls.agentId] })
  assert.deepEqual(accepted(), [true, true])
  assert.equal(bob.channel.history.hasHeard(mal.agentId), false)
  await commit({ removes: [mal.mls.agentId] })
  assert.deepEqual(accepted(), [undefined, undefined])
})

test('a member whose fork was accepted and that has left is compared again, even if one commit removes and adds it', async () => {
  const stage = await Stage.start(['ann', 'mal'], { apart: ['mal'] })
  const [ann, mal] = [stage.player('ann'), new Apart(stage, 'mal')]
  mal.say(mal.frame('I saw another log', { seen: { index: stage.position.index, hash: Buffer.alloc(32, 7) } }))
  await stage.settleWithPrograms()
  ann.channel.acceptFork()
  mal.leave()
  await stage.settle()
  const { keyPackage } = await mal.mls.keyPackage(Date.now())
  const notice = ann.channel.roster.notice(mal.agentId) ?? assert.fail()
  const done = ann.channel.committer.commit(() => ({
    adds: [keyPackage],
    removes: [mal.mls.agentId],
    leaveNotices: [notice],
  }))
  await stage.settle()
  await done
  assert.equal(ann.channel.history.sender(mal.agentId), undefined)
})

test('an agent that claims a fork does not keep the owner from removing another one', async () => {
  const stage = await Stage.start(['ann', 'bob', 'mal', 'syb', 'eve'], { apart: ['mal', 'syb', 'eve'] })
  const ann = stage.player('ann')
  const [mal, syb, eve] = [new Apart(stage, 'mal'), new Apart(stage, 'syb'), new Apart(stage, 'eve')]
  const fork = (): void =>
    syb.say(syb.frame('I saw another log', { seen: { index: stage.position.index, hash: Buffer.alloc(32, 7) } }))
  // While the removal first ends invites at the relay.
  const removing = async (): Promise<() => void> => {
    fork()
    await stage.settle()
    return () => {}
  }
  const first = removeMember({ invites: { removing } as never }, ann.channel, mal.agentId)
  await stage.settleWithPrograms()
  await first
  assert.equal(ann.told('fork_detected').length, 1)
  const second = removeMember({ invites: undefined }, ann.channel, eve.agentId)
  await stage.settleWithPrograms()
  await second
  assert.deepEqual([...(ann.channel.group?.members.keys() ?? [])].includes(mal.agentId), false)
  assert.equal(ann.channel.group?.members.size, 3)
  // Nothing else is sent until the owner decides about the fork, too.
  await assert.rejects(ann.send('hi'), { code: 'fork_detected' })
  const third = removeMember({ invites: undefined }, ann.channel, syb.agentId)
  await stage.settleWithPrograms()
  await third
  const sent = ann.send('hi')
  await stage.settle()
  await sent
})
