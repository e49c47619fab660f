import assert from 'node:assert/strict'
import { test } from 'node:test'
import { constantTimeEqual, sameBytes } from '../src/compare.ts'

test('secrets compare as equal or not, whatever their length', () => {
  assert.ok(constantTimeEqual('secret', 'secret'))
  for (const other of [undefined, '', 'secre', 'secrett', 'Secret']) assert.ok(!constantTimeEqual(other, 'secret'))
  assert.ok(sameBytes(Uint8Array.of(1, 2), Buffer.of(1, 2)))
  for (const other of [[], [1], [1, 3], [1, 2, 0]]) assert.ok(!sameBytes(Uint8Array.from(other), Uint8Array.of(1, 2)))
})
