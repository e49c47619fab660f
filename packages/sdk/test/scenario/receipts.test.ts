/** Receipts over a real relay, with agents that come and go. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AgentEvent } from '../../src/index.ts'
import { code, NAME, takeEnvelope, TestSystem } from '../support/test-system.ts'

test('sender and receiver are never online together, and the sender still learns that its message was settled', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  let alice = await world.agent('alice')
  const bob = await world.agent('bob')
  const [channel] = await world.channel(alice, [bob], NAME)
  await bob.close()
  const sent = await channel!.send('deploy')
  assert.deepEqual(Object.keys(sent).sort(), ['index', 'messageId'])
  await assert.rejects(
    channel!.reached(sent, 'settled', { timeout: 0.2 }),
    code('cancelled', /Missing: bob \(.*0.2 s expired/),
  )
  await alice.close()
  const again = await world.agent('bob')
  const envelope = await takeEnvelope(again.channel(NAME))
  assert.equal(envelope.text(), 'deploy')
  envelope.settle()
  // At once: the last receipt does not wait for its time.
  await again.close()
  alice = await world.agent('alice')
  const { reached, unreached } = await alice.channel(NAME).reached(sent)
  assert.deepEqual([reached, unreached], [[bob.agentId], []])
  const [receipt] = await alice.channel(NAME).receipts()
  assert.deepEqual(
    [receipt?.agentId, receipt?.mode, receipt?.delivered, receipt?.settled, receipt?.aside],
    [bob.agentId, 'settled', sent.index, sent.index, 0],
  )
  assert.ok(receipt?.at instanceof Date)
})

test('members that are online confirm within moments, and events say which', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const [alice, bob, carol] = [await world.agent('alice'), await world.agent('bob'), await world.agent('carol')]
  const [channel, atBob, atCarol] = await world.channel(alice, [bob, carol], NAME)
  const told: AgentEvent[] = []
  const events = alice.events()
  void (async () => {
    for await (const event of events) if (event.type === 'receipt') told.push(event)
  })()
  const sent = await channel!.send('hello')
  const delivered = await channel!.reached(sent, 'delivered', { timeout: 30 })
  assert.deepEqual([...delivered.reached].sort(), [bob.agentId, carol.agentId].sort())
  const settled = channel!.reached(sent, 'settled', { timeout: 30 })
  for (const each of [atBob, atCarol]) (await takeEnvelope(each!)).settle()
  assert.equal((await settled).reached.length, 2)
  assert.deepEqual(
    new Set(told.map((event) => 'member' in event && event.member)),
    new Set([bob.agentId, carol.agentId]),
  )
  assert.equal((await channel!.reached(sent, 'settled', { by: [bob.agentId] })).reached[0], bob.agentId)

  // Bad input gets a code and one sentence.
  const none = { messageId: 'ab'.repeat(16), index: sent.index }
  await assert.rejects(channel!.reached(none), code('not_found', /sent no message abab/))
  await assert.rejects(channel!.reached('x' as never), code('invalid_request', /`sent` must be/))
  await assert.rejects(channel!.reached({ ...sent, messageId: 'x' }), code('invalid_request', /`sent` must be/))
  await assert.rejects(channel!.reached(sent, 'read' as never), code('invalid_request', /delivered or settled/))
  await assert.rejects(channel!.reached(sent, 'settled', { by: ['x'] }), code('invalid_request'))
  await assert.rejects(
    channel!.reached(sent, 'settled', { by: [alice.agentId] }),
    code('invalid_request', /this agent/),
  )
  await alice.close()
  await assert.rejects(channel!.reached(sent), code('closed'))
})
