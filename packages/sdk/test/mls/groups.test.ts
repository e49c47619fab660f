import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { Agent, addAll, channelOf, engine, hex, makeChannel, NAME } from './support.ts'

test('a channel is created, its founder removed, and members join, send and leave', async () => {
  const owner = new Agent('owner')
  const channelId = await makeChannel(owner)
  const facts = engine.facts(owner.group)
  assert.equal(facts.epoch, 2n)
  assert.equal(hex(facts.groupId), hex(channelId))
  assert.equal(facts.context.name, NAME)
  assert.equal(hex(facts.context.owner), hex(owner.agentId))
  assert.deepEqual(facts.members, [facts.own])
  assert.equal(facts.own.founder, false)

  const [ann, bob] = [new Agent('ann'), new Agent('bob')]
  await addAll(owner, [ann, bob])
  assert.equal(ann.read(owner.send('hello')), 'hello')
  assert.equal(owner.read(bob.send('hi')), 'hi')
  const pending = await owner.commit({ removes: [ann.agentId] })
  owner.adopt(pending)
  const atBob = await bob.take(owner, pending)
  const atAnn = await ann.take(owner, pending)
  assert.ok(atBob.kind === 'accepted' && atBob.next !== undefined)
  assert.deepEqual(
    atBob.removed.map(({ agentId }) => hex(agentId)),
    [hex(ann.agentId)],
  )
  assert.ok(atAnn.kind === 'accepted' && atAnn.next === undefined)
  assert.equal(bob.read(owner.send('without ann')), 'without ann')
  assert.equal(hex(engine.facts(bob.group).epochAuthenticator), hex(engine.facts(owner.group).epochAuthenticator))
})

test('every step works from stored bytes', async () => {
  const { agents } = await channelOf('owner', 'ann')
  const [owner, ann] = agents as [Agent, Agent]
  for (let round = 0; round < 3; round++) {
    for (const agent of agents) agent.restart()
    assert.equal(ann.read(owner.send(`down ${round}`)), `down ${round}`)
    assert.equal(owner.read(ann.send(`up ${round}`)), `up ${round}`)
    const pending = await ann.commit()
    ann.adopt(pending)
    assert.equal((await owner.take(ann, pending)).kind, 'accepted')
  }
})

test('before the founder is removed, nothing can be sent and no one added', async () => {
  const owner = new Agent('owner')
  const own = await owner.keyPackage()
  const ann = await new Agent('ann').keyPackage()
  const founding = { channelId: randomBytes(16), name: NAME, keyPackage: own.keyPackage, now: Date.now() }
  await assert.rejects(engine.found({ ...founding, channelId: randomBytes(15) }), { code: 'invalid_request' })
  await owner.join(await engine.found(founding), own, { founding: true })
  assert.throws(() => owner.send('x'), { code: 'invalid_request' })
  await assert.rejects(owner.commit({ adds: [ann.keyPackage] }), { code: 'invalid_request' })
  await assert.rejects(owner.commit(), { code: 'invalid_request' })
  const { declaration } = await owner.commit({ removeFounder: true })
  assert.deepEqual(declaration, { adds: [], removes: [], leaveNotices: [], vouches: [] })
})

test('a channel has at most 250 members', async () => {
  const owner = new Agent('owner')
  await makeChannel(owner)
  const adds: Uint8Array[] = []
  for (let at = 0; at < 250; at++) adds.push((await new Agent(`agent ${at}`).keyPackage()).keyPackage)
  await assert.rejects(owner.commit({ adds }), { code: 'group_full' })
})

test('a member whose leaf goes to another in the same commit knows that it was removed', async () => {
  const { agents } = await channelOf('owner', 'ann', 'bob')
  const [owner, ann, bob] = agents as [Agent, Agent, Agent]
  const cid = new Agent('cid')
  const own = await cid.keyPackage()
  const before = engine.facts(ann.group).own.leaf
  const pending = await owner.commit({ removes: [ann.agentId], adds: [own.keyPackage] })
  owner.adopt(pending)
  const [atAnn, atBob] = [await ann.take(owner, pending), await bob.take(owner, pending)]
  assert.ok(atAnn.kind === 'accepted' && atAnn.next === undefined)
  assert.ok(atBob.kind === 'accepted' && atBob.next !== undefined)
  await cid.join(pending.welcomes[0]!.welcome, own)
  assert.equal(engine.facts(cid.group).own.leaf, before)
  assert.equal(bob.read(cid.send('in her place')), 'in her place')
})

test('members added at different times, before those around them have committed, can join', async () => {
  const { agents } = await channelOf('owner', 'a', 'b', 'c', 'd', 'e', 'f', 'g')
  const commit = async (sender: Agent, change: Parameters<Agent['commit']>[0], staying: Agent[]): Promise<void> => {
    const pending = await sender.commit(change)
    sender.adopt(pending)
    for (const other of staying) if (other !== sender) await other.take(sender, pending)
  }
  for (const agent of agents) await commit(agent, {}, agents)
  const [owner, a, , , , e, f] = agents as [Agent, Agent, Agent, Agent, Agent, Agent, Agent]
  let staying = agents.filter((agent) => agent !== e)
  await commit(owner, { removes: [e.agentId] }, staying)
  await commit(f, {}, staying)
  staying = staying.filter((agent) => agent !== a)
  await commit(owner, { removes: [a.agentId] }, staying)
  // Two leaves are blank now, under parents that are not: each new member is unmerged in another part of the tree.
  for (const name of ['x', 'y']) {
    const joiner = new Agent(name)
    await addAll(
      owner,
      [joiner],
      staying.filter((agent) => agent !== owner),
    )
    staying.push(joiner)
    assert.equal(f.read(joiner.send('in')), 'in')
  }
  const lists = inside(owner.group).state.ratchetTree.flatMap((node) =>
    node?.nodeType === 'parent' && node.parent.unmergedLeaves.length > 0 ? [String(node.parent.unmergedLeaves)] : [],
  )
  assert.ok(new Set(lists).size > 1, 'the lists differ, which the library does not take')
})
