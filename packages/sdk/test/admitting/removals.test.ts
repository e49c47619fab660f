/**
 * The owner removes a member while invites that members may use are open (SPEC.md, 6.5). The removed member knows them, so
 * no honest member admits by them until it has a list that the owner has signed since, whatever the relay withholds.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromHex } from '@static/protocol'
import { encodeListFrame } from '../../src/admitting/invite-list.ts'
import { removeMember } from '../../src/agent/owning.ts'
import type { AgentId } from '../../src/ports/index.ts'
import { Apart } from '../support/apart.ts'
import { outsider, type Player } from '../support/stage.ts'
import { Crowd, type Joiner, NAMES, shared } from './crowd.ts'

interface Scene {
  readonly crowd: Crowd
  readonly mallory: Apart
  readonly invite: ReturnType<Crowd['invite']>
  /** Mallory under another name, with the keys of the invite that it knows. */
  readonly again: Joiner
}

/** A channel with an open invite. The test plays mallory. */
async function open(): Promise<Scene> {
  const crowd = await Crowd.start(NAMES, { apart: ['mallory'] })
  const invite = crowd.invite(5)
  const { id, expiresAt, maxUses } = invite.listed
  const record = { id, channel: crowd.owner.channel.id, secret: new Uint8Array(32), expiresAt, maxUses }
  const issue = { ...record, uses: 0, returned: 0, revoked: false, admit: 'members' as const }
  void shared(crowd.owner).issued.issue({ record: issue, keys: invite.keys })
  await crowd.publish(invite)
  const again = await crowd.joiner('again', invite.keys)
  return { crowd, mallory: new Apart(crowd.stage, 'mallory'), invite, again }
}

/** The application of the owner removes a member. */
async function remove({ stage, owner }: Crowd, agent: AgentId): Promise<void> {
  const { sharing } = shared(owner)
  const removing = async (): Promise<() => void> => {
    await sharing.endAll(owner.channel)
    return () => {}
  }
  owner.invites = { ...owner.invites, removing } as never
  let isRemoved = false
  void removeMember(owner, owner.channel, agent).then(() => (isRemoved = true))
  for (let turns = 0; turns < 100 && !isRemoved; turns++) await stage.settleWithPrograms()
  assert.equal(isRemoved, true)
  await stage.settleWithPrograms()
}

/** The relay takes no message of the owner, so that its lists never arrive. */
function withhold({ stage }: Crowd): void {
  const isOwners = (player: Player): boolean => player.agentId === stage.owner
  stage.refuse = (player, { case: kind }) =>
    isOwners(player) && kind === 'sendMessage' ? { code: 'queue_full' } : undefined
}

test('a member that is removed for a fork cannot come back by an invite that it knows', async () => {
  const { crowd, mallory, again } = await open()
  const { stage, owner } = crowd
  mallory.say(mallory.frame('I saw another log', { seen: { index: stage.position.index, hash: Buffer.alloc(32, 7) } }))
  await stage.settleWithPrograms()
  assert.equal(owner.told('fork_detected').length, 1)
  const before = stage.log.length
  await remove(crowd, mallory.agentId)
  for (const name of ['bob', 'carol']) {
    assert.deepEqual(stage.player(name).channel.listedInvites.invites, [], name)
    crowd.poll(stage.player(name), [again.request])
    await stage.advance(5000, 500)
  }
  assert.deepEqual(crowd.added, [])
  // The commit, and the list once.
  const kinds = stage.log.slice(before).map(({ kind, sender }) => (sender === stage.owner ? kind : 'other'))
  assert.deepEqual(kinds, ['commit', 'message'])
})

test("the owner's revocations in a fork are sent when its application accepts the fork", async () => {
  const { crowd, mallory, invite, again } = await open()
  const { stage, owner } = crowd
  mallory.say(mallory.frame('I saw another log', { seen: { index: stage.position.index, hash: Buffer.alloc(32, 7) } }))
  await stage.settleWithPrograms()
  await crowd.publish()
  assert.equal(stage.player('bob').channel.listedInvites.invite(invite.listed.id)?.id, invite.listed.id)
  for (const { channel } of stage.players) channel.acceptFork()
  await stage.settleWithPrograms()
  assert.deepEqual(stage.player('bob').channel.listedInvites.invites, [])
  crowd.poll(stage.player('bob'), [again.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [])
  assert.equal(owner.store.load().channels[0]?.inviteList?.due, false)
})

test('the relay withholds the list after a removal: no member admits, not after a restart nor by the old list', async () => {
  const { crowd, mallory, invite, again } = await open()
  const { stage } = crowd
  const old = stage.player('bob').store.load().channels[0]?.inviteList?.list ?? assert.fail()
  withhold(crowd)
  await remove(crowd, mallory.agentId)
  crowd.poll(stage.player('bob'), [again.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [], 'at once')
  stage.player('bob').restart()
  await stage.settle()
  crowd.poll(stage.player('bob'), [again.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [], 'after a restart')
  void stage.player('carol').channel.sender.send('invites', encodeListFrame(old, stage.position.slot, [0]))
  await stage.settle()
  crowd.poll(stage.player('bob'), [again.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [], 'by the old list')
  // Nor does one that is added now: it is told of no invite.
  const person = await outsider(stage, 'dan')
  void stage.player('carol').channel.committer.commit(() => ({ adds: [person.keyPackage] }))
  await stage.settle()
  const dan = await person.join(crowd.welcomeOf(Buffer.from(person.agentId).toString('hex')))
  await stage.settle()
  assert.equal(dan.channel.listedInvites.count(invite.listed.id), undefined)
  crowd.poll(dan, [again.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [], 'by a newcomer')
  // The owner's next session tells all, and what is open then can be used.
  stage.refuse = () => undefined
  crowd.owner.restart()
  await stage.settle()
  assert.deepEqual(stage.player('bob').channel.listedInvites.invites, [])
  const other = crowd.invite(1)
  await crowd.publish(other)
  const joiner = await crowd.joiner('joiner', other.keys)
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [joiner.agentId])
})

test('after a removal that ends no invite the owner issues the list again, even if it is killed first', async () => {
  for (const kill of ['not killed', 'before the commit arrives', 'after it', 'after it is adopted'] as const) {
    const { crowd, mallory, invite } = await open()
    const { stage } = crowd
    const joiner = await crowd.joiner('joiner', invite.keys)
    // As for one that was silent.
    void crowd.owner.channel.committer.commit(() => ({ removes: [fromHex(mallory.agentId)] }))
    if (kill === 'after it is adopted') {
      withhold(crowd)
      await stage.settle()
      assert.equal(stage.player('bob').channel.group?.members.has(mallory.agentId), false)
      crowd.poll(stage.player('bob'), [joiner.request])
      await stage.advance(5000, 500)
      assert.deepEqual(crowd.added, [], kill)
      stage.refuse = () => undefined
      crowd.owner.restart()
    } else if (kill !== 'not killed') {
      await crowd.owner.channel.idle()
      crowd.owner.journal.flush()
      crowd.owner.restart(kill === 'after it' ? 1 : 0)
    }
    await stage.settle()
    crowd.poll(stage.player('bob'), [joiner.request])
    await stage.advance(5000, 500)
    assert.deepEqual(crowd.added, [joiner.agentId], kill)
    for (const { name, channel } of stage.players)
      assert.equal(channel.listedInvites.count(invite.listed.id), 1, `${kill}, ${name}`)
  }
})

test('a list that the relay refuses is sent again after a minute, in the same session', async () => {
  const { crowd, mallory, invite } = await open()
  const { stage, owner } = crowd
  withhold(crowd)
  void owner.channel.committer.commit(() => ({ removes: [fromHex(mallory.agentId)] }))
  await stage.settle()
  stage.refuse = () => undefined
  const before = stage.log.length
  await stage.advance(55_000)
  assert.equal(stage.log.length, before)
  await stage.advance(10_000)
  const joiner = await crowd.joiner('joiner', invite.keys)
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [joiner.agentId])
})

test('a member that has left is removed without another list, and members keep admitting', async () => {
  const { crowd, invite } = await open()
  const { stage } = crowd
  const carol = stage.player('carol')
  stage.leave(carol)
  stage.players.splice(stage.players.indexOf(carol), 1)
  const before = stage.log.length
  await stage.advance(6000, 500)
  assert.equal(crowd.owner.channel.group?.members.has(carol.agentId), false)
  assert.deepEqual(
    stage.log.slice(before).map(({ kind }) => kind),
    ['commit'],
  )
  const joiner = await crowd.joiner('joiner', invite.keys)
  crowd.poll(stage.player('bob'), [joiner.request])
  await stage.advance(5000, 500)
  assert.deepEqual(crowd.added, [joiner.agentId])
})
