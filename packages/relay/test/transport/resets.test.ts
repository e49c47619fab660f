import assert from 'node:assert/strict'
import { constants } from 'node:http2'
import { test } from 'node:test'
import { networkOf } from '@static/protocol'
import { RESET_WINDOW_MS, Resets, SLOW_FOR_MS } from '../../src/transport/http2/resets.ts'
import { Streak } from '../../src/transport/http2/streak.ts'

const LIMIT = 100
const ADDRESS = '192.0.2.1'

test('an address that resets in bulk is slowed for a while, not only for the rest of the window', () => {
  const resets = new Resets(LIMIT)
  const start = 50_000
  for (let at = 0; at <= LIMIT; at++) {
    assert.equal(resets.slowed(ADDRESS, start), undefined)
    resets.add(ADDRESS, start)
  }
  for (const after of [0, RESET_WINDOW_MS + 1, SLOW_FOR_MS - 1]) {
    assert.equal(resets.slowed(ADDRESS, start + after), ADDRESS)
  }
  assert.equal(resets.slowed('192.0.2.2', start), undefined)
  assert.equal(resets.slowed(ADDRESS, start + SLOW_FOR_MS), undefined)
})

test('a /48 that resets in bulk is slowed as one', () => {
  const resets = new Resets(LIMIT)
  for (let at = 0; at <= 16 * LIMIT; at++) resets.add(`2001:db8:1:${(at % 100).toString(16)}::/64`, 50_000)
  assert.equal(resets.slowed('2001:db8:1:ffff::/64', 50_000), networkOf('2001:db8:1:ffff::/64'))
  assert.equal(resets.slowed('2001:db8:2:ffff::/64', 50_000), undefined)
})

test('resets that are few in each window slow nobody', () => {
  const resets = new Resets(LIMIT)
  for (let window = 0; window < 20; window++) {
    const now = window * (RESET_WINDOW_MS + 1)
    for (let at = 0; at < LIMIT; at++) resets.add(ADDRESS, now)
    assert.equal(resets.slowed(ADDRESS, now), undefined)
  }
})

test('streams that one read opens and resets end the connection before all of them are open', () => {
  const resets = new Resets(LIMIT)
  const limits = { streams: 10, resets: 40 }
  const open = (): number => {
    const streak = new Streak(limits, resets, ADDRESS)
    for (let count = 1; count < 1000; count++) if (streak.opened(50_000)) return count
    return Infinity
  }
  assert.deepEqual([open(), open(), open()], [51, 51, 51])
  assert.equal(open(), 15, 'the address has reset too many now: its connections may reset a tenth as many')
})

test('a connection that resets little is kept while its address is slowed', () => {
  const resets = new Resets(LIMIT)
  const streak = new Streak({ streams: 10, resets: 40 }, resets, ADDRESS)
  resets.add(ADDRESS, 50_000, LIMIT + 1)
  for (let count = 0; count < 4; count++) {
    assert.equal(streak.opened(50_000), false)
    assert.equal(streak.closed(constants.NGHTTP2_CANCEL, 50_000), false)
  }
  assert.equal(streak.opened(50_000), false)
  assert.equal(streak.closed(constants.NGHTTP2_CANCEL, 50_000), true)
})

test('a connection that many share may open as many streams as it likes, if they end well', () => {
  const streak = new Streak({ streams: 10, resets: 40 }, new Resets(LIMIT), ADDRESS)
  for (let count = 0; count < 10; count++) assert.equal(streak.opened(50_000), false)
  for (let count = 0; count < 1000; count++) {
    assert.equal(streak.closed(constants.NGHTTP2_NO_ERROR, 50_000), false)
    assert.equal(streak.opened(50_000), false)
  }
})
