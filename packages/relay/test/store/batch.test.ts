import assert from 'node:assert/strict'
import { test } from 'node:test'
import { batchLength } from '../../src/store/batch.ts'
import type { Call } from '../../src/store/sqlite/worker-messages.ts'

test('a batch has room for as many polls for join requests as their boxes may fill', () => {
  const poll = { name: 'takeJoins', request: { maxBytes: 524_288 } } as unknown as Call
  assert.equal(batchLength(Array.from({ length: 100 }, () => poll)), 8)
  const large = { name: 'takeJoins', request: { maxBytes: 1e9 } } as unknown as Call
  assert.equal(batchLength([large, large]), 1)
})
