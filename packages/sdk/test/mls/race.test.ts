import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decryptSenderData } from 'ts-mls/privateMessage.js'
import { encodeRow } from '../../src/mls/ratchet.ts'
import { KeyedMutex } from '../../src/mls/mutex.ts'
import { decodeMessage } from '../../src/mls/ts-mls/message.ts'
import { inside } from '../../src/mls/ts-mls/state.ts'
import { crypto } from './attacker.ts'
import { type Agent, channelOf, engine, hex } from './support.ts'

test('the loser of a race follows the winner, also when loaded from the database', async () => {
  const { agents } = await channelOf('owner', 'ann', 'bob')
  const [owner, ann, bob] = agents as [Agent, Agent, Agent]
  const [mine, winner] = [await owner.commit({ removes: [bob.agentId] }), await ann.commit()]
  ann.adopt(winner)
  owner.restart()
  assert.equal((await owner.take(ann, winner)).kind, 'accepted')
  assert.equal((await bob.take(ann, winner)).kind, 'accepted')
  engine.wipe(mine.next.group, owner.group)
  assert.equal(owner.read(ann.send('won')), 'won')
  assert.equal(bob.read(owner.send('lost')), 'lost')
  const again = await owner.commit({ removes: [bob.agentId] })
  owner.adopt(again)
  assert.equal((await ann.take(owner, again)).kind, 'accepted')
})

test('a second commit in one epoch does not reuse the key of the first, and is followed', async () => {
  const { agents } = await channelOf('owner', 'ann')
  const [owner, ann] = agents as [Agent, Agent]
  const generations: number[] = []
  for (let round = 0; round < 3; round++) {
    const { commit } = await owner.commit()
    const message = decodeMessage('mls_private_message', commit)!.privateMessage
    const { senderDataSecret } = inside(owner.group).state.keySchedule
    generations.push((await decryptSenderData(message, senderDataSecret, crypto.provider))!.generation)
    owner.restart()
  }
  assert.deepEqual(generations, [0, 1, 2])
  const pending = await owner.commit()
  owner.adopt(pending)
  assert.equal((await ann.take(owner, pending)).kind, 'accepted')
})

test('a commit of another epoch is reported as such', async () => {
  const { agents } = await channelOf('owner', 'ann')
  const [owner, ann] = agents as [Agent, Agent]
  const [first] = [await owner.commit()]
  owner.adopt(first)
  const second = await owner.commit()
  assert.deepEqual(await ann.judge(second.commit, second.declaration, owner.agentId), {
    kind: 'other_epoch',
    epoch: ann.epoch + 1n,
  })
  assert.equal(engine.epochOf(second.commit), ann.epoch + 1n)
  assert.equal(engine.epochOf(new Uint8Array(5)), undefined)
  const { agents: others } = await channelOf('owner', 'ann')
  const strange = await others[0]!.commit()
  const result = await ann.judge(strange.commit, strange.declaration, owner.agentId)
  assert.equal(result.kind === 'rejected' && result.reason, 'other_group')
})

/** Every secret of a group, its ratchets and its serialised form included. */
function secretsOf(agent: Agent): Uint8Array[] {
  const { keySchedule, privatePath, secretTree } = inside(agent.group).state
  return [
    ...Object.values(keySchedule),
    ...Object.values(privatePath.privateKeys),
    ...secretTree.map(({ handshake }) => handshake.secret).filter(({ length }) => length > 0),
  ]
}

test('after a commit nothing of the previous epoch is left, in the committer and in other members', async () => {
  const { agents } = await channelOf('owner', 'ann', 'bob')
  const [owner, ann] = agents as [Agent, Agent, Agent]
  const before = [owner, ann].map((agent) => {
    const live = secretsOf(agent)
    return { live, copies: live.map(hex), ratchets: [...agent.rows.values()].map(({ secret }) => hex(secret)) }
  })
  const pending = await owner.commit()
  owner.adopt(pending)
  await ann.take(owner, pending)
  for (const [at, agent] of [owner, ann].entries()) {
    const { live, copies, ratchets } = before[at]!
    const stored = [engine.encodeGroup(agent.group), ...[...agent.rows.values()].map(encodeRow)].map(hex).join(' ')
    // Keys of nodes that the commit did not replace stay.
    const staying = live.filter((_, at) => stored.includes(copies[at]!))
    assert.ok(staying.length <= 1)
    for (const secret of live) assert.equal(isZero(secret), !staying.includes(secret))
    for (const secret of ratchets) assert.ok(!stored.includes(secret))
    assert.equal(inside(agent.group).state.historicalReceiverData.size, 0)
  }
  assert.equal(ann.read(owner.send('and on')), 'and on')
})

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0)
}

test('one task at a time runs per group, in order, even after a failure', async () => {
  const mutex = new KeyedMutex()
  const log: string[] = []
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const first = mutex.run('a', async () => {
    log.push('a1 starts')
    await gate
    log.push('a1 ends')
    throw new Error('broken')
  })
  const second = mutex.run('a', () => log.push('a2'))
  await mutex.run('b', () => log.push('b1'))
  open()
  await assert.rejects(first, /broken/)
  await second
  assert.deepEqual(log, ['a1 starts', 'b1', 'a1 ends', 'a2'])
})
