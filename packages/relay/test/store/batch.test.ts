import assert from 'node:assert/strict'
import { test } from 'node:test'
import { batchLength } from '../../src/store/batch.ts'
import type { Call } from '../../src/store/call.ts'

test('a batch takes as many polls for join requests as their boxes may fill', () => {
  const poll = { name: 'takeJoins', request: { maxBytes: 524_288 } } as unknown as Call
  assert.equal(batchLength(Array.from({ length: 100 }, () => poll)), 8)
  const large = { name: 'takeJoins', request: { maxBytes: 1e9 } } as unknown as Call
  assert.equal(batchLength([large, large]), 1)
})

test('a batch ends after Resumes that name many channels, so that the answers before them do not wait', () => {
  const resume = (count: number | undefined): Call =>
    ({ name: 'resume', request: { channels: count && Array.from({ length: count }, () => '') } }) as unknown as Call
  const message = { name: 'append', request: { ciphertext: new Uint8Array(1000) } } as unknown as Call
  assert.equal(batchLength([message, resume(2000), message, resume(2000), message]), 3)
  assert.equal(batchLength(Array.from({ length: 100 }, () => resume(64))), 32)
  assert.equal(batchLength(Array.from({ length: 100 }, () => resume(undefined))), 32)
  assert.equal(batchLength(Array.from({ length: 300 }, () => resume(1))), 256)
})
