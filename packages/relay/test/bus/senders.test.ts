/** Which messages of other nodes count. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Senders } from '../../src/bus/senders.ts'

test('a message that is repeated after its node fell silent is not new, and does not bring the node back', () => {
  const senders = new Senders()
  assert.equal(senders.isNew('node', 1, 1000), true)
  assert.equal(senders.size, 1)
  assert.equal(senders.forgetSilent(2000), true)
  assert.equal(senders.forgetSilent(2100), false)
  assert.equal(senders.size, 0)
  assert.equal(senders.isNew('node', 1, 61_000), false)
  assert.equal(senders.size, 0)
  assert.equal(senders.isNew('node', 2, 61_000), true)
  assert.equal(senders.size, 1)
})
