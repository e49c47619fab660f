import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { Agent, addAll, channelOf, engine, hex, makeChannel, NAME } from './support.ts'

test('a channel is founded, its founder removed, and members come, speak and go', async () => {
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

test('everything goes on from bytes at every step', async () => {
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

test('before the founder is removed nothing is sent and nobody added', async () => {
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
  assert.deepEqual(declaration, { adds: [], removes: [], leaveNotices: [] })
})

test('a channel has at most 250 members', async () => {
  const owner = new Agent('owner')
  await makeChannel(owner)
  const adds: Uint8Array[] = []
  for (let at = 0; at < 250; at++) adds.push((await new Agent(`agent ${at}`).keyPackage()).keyPackage)
  await assert.rejects(owner.commit({ adds }), { code: 'group_full' })
})
