import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BAR_MS, RESET_WINDOW_MS, Resets } from '../../src/transport/http2/resets.ts'

const LIMIT = 100
const ADDRESS = '192.0.2.1'

test('an address that resets in bulk is barred for a while, not only for the rest of the window', () => {
  const resets = new Resets(LIMIT)
  const start = 50_000
  for (let at = 0; at <= LIMIT; at++) {
    assert.equal(resets.isOver(ADDRESS, start), false)
    resets.add(ADDRESS, start)
  }
  for (const after of [0, RESET_WINDOW_MS + 1, BAR_MS - 1]) assert.equal(resets.isOver(ADDRESS, start + after), true)
  assert.equal(resets.isOver('192.0.2.2', start), false)
  assert.equal(resets.isOver(ADDRESS, start + BAR_MS), false)
})

test('resets that are few in each window bar nobody', () => {
  const resets = new Resets(LIMIT)
  for (let window = 0; window < 20; window++) {
    const now = window * (RESET_WINDOW_MS + 1)
    for (let at = 0; at < LIMIT; at++) resets.add(ADDRESS, now)
    assert.equal(resets.isOver(ADDRESS, now), false)
  }
})
