import assert from 'node:assert/strict'
import { constants } from 'node:http2'
import { test } from 'node:test'
import { BAR_MS, RESET_WINDOW_MS, Resets } from '../../src/transport/http2/resets.ts'
import { Streak } from '../../src/transport/http2/streak.ts'

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

test('streams that one read opens and resets end the connection before all of them were opened', () => {
  const resets = new Resets(LIMIT)
  const limits = { streams: 10, resets: 40 }
  const open = (): number => {
    const streak = new Streak(limits, resets, ADDRESS)
    for (let count = 1; count < 1000; count++) if (streak.opened(50_000)) return count
    return Infinity
  }
  assert.deepEqual([open(), open(), open()], [51, 51, 51])
  assert.equal(open(), 1, 'the address has reset too many now, and its next connection is cut at once')
})

test('a connection that many share may open as many streams as it likes, if they end well', () => {
  const streak = new Streak({ streams: 10, resets: 40 }, new Resets(LIMIT), ADDRESS)
  for (let count = 0; count < 10; count++) assert.equal(streak.opened(50_000), false)
  for (let count = 0; count < 1000; count++) {
    assert.equal(streak.closed(constants.NGHTTP2_NO_ERROR, 50_000), false)
    assert.equal(streak.opened(50_000), false)
  }
})
