import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fromHex, toHex } from '@static/protocol'

test('hexadecimal strings round-trip', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      assert.equal(toHex(bytes), Buffer.from(bytes).toString('hex'))
      assert.deepEqual(fromHex(toHex(bytes)), bytes)
    }),
  )
})
