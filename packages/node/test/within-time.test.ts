import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withinTime } from '../src/within-time.ts'

test('work that takes longer than the limit is not waited for, and a limit of months does not end at once', async () => {
  const never = new Promise<string>(() => {})
  assert.equal(await withinTime(never, 1), undefined)
  const soon = new Promise<string>((resolve) => setImmediate(setImmediate, resolve, 'done'))
  assert.equal(await withinTime(soon, 2 ** 33), 'done')
  assert.equal(await withinTime(Promise.resolve('at once'), 0), 'at once')
})
