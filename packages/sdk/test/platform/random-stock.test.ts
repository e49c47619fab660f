import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeRandom } from '../../src/platform/random-stock.ts'

test('random bytes of any length are new every time, also after the stock was filled again', () => {
  const random = makeRandom()
  const seen = new Set<string>()
  for (let n = 0; n < 2000; n++) {
    for (const bytes of [8, 10, 16, 17, 5000]) {
      if (bytes > 16 && n % 100 > 0) continue
      const taken = random(bytes)
      assert.equal(taken.length, bytes)
      seen.add(Buffer.from(taken).toString('hex'))
    }
  }
  assert.equal(seen.size, 3 * 2000 + 2 * 20)
})
