import assert from 'node:assert/strict'
import test from 'node:test'
import { helloDelayMs } from '../../src/joining/hello.ts'

test('a joiner repeats its hello after 2 s in a small channel, then after twice as long each time', () => {
  assert.deepEqual(
    [0, 1, 2, 3].map((repeats) => helloDelayMs(repeats, 2)),
    [2000, 4000, 8000, 16_000],
  )
})

test('a joiner of a large channel waits longer, as every member reads every hello', () => {
  assert.equal(helloDelayMs(0, 250), 31_250)
})

test('a joiner never waits longer than ten minutes', () => {
  assert.equal(helloDelayMs(60, 250), 600_000)
})
