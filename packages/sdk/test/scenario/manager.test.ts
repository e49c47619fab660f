import assert from 'node:assert/strict'
import { test } from 'node:test'
import { code, NAME, text, TestSystem } from '../support/test-system.ts'

test('a manager returns all pending envelopes, and settles them with the next call and when it closes', async (t) => {
  const world = await TestSystem.start(t, 'grpc')
  const owner = await world.manager('owner')
  let reader = await world.manager('reader')
  await owner.create(NAME)
  await reader.joinWithToken(NAME, await owner.invite(NAME), 20)
  assert.deepEqual(await reader.receiveEnvelopes(NAME, 0.05), [])
  const said = ['one', 'two', 'three']
  for (const words of said) await owner.send(NAME, words)

  const texts: string[] = []
  while (texts.length < 3) {
    for (const { payload, sender, redelivered } of await reader.receiveEnvelopes(NAME, 20)) {
      assert.deepEqual([sender.agentId, redelivered], [owner.client.agentId, false])
      texts.push(text(payload))
    }
  }
  assert.deepEqual(texts, said)
  // Asking settles all of them, and so does closing in order. What was not returned comes when it starts again.
  assert.deepEqual(await reader.receiveEnvelopes(NAME, 0.05), [])
  await owner.send(NAME, 'four')
  await owner.send(NAME, 'five')
  assert.equal(text((await reader.receive(NAME, 20))!), 'four')
  await reader.close()
  await owner.send(NAME, 'six')
  reader = await world.manager('reader')
  const later: [string, boolean][] = []
  while (later.length < 2) {
    for (const envelope of await reader.receiveEnvelopes(NAME, 20)) later.push([envelope.text(), envelope.redelivered])
  }
  assert.deepEqual(later, [
    ['five', false],
    ['six', false],
  ])
  await assert.rejects(reader.receive('acme/support/none'), code('not_found'))
  await assert.rejects(reader.send('no name', 'x'), code('channel_error'))
})
