/** How many agents come back to a relay that was down, and when: the backoff alone, in a simulated time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomNumbers, SEED } from '@static/testkit/random'
import { Backoff } from '../../src/session/backoff.ts'
import { BACKOFF_MS } from '../../src/session/core.ts'

const AGENTS = 900
const FAILED_DIAL_MS = 5

/** When the agents return, in milliseconds after the relay is up again, in order. */
function returns(downMs: number, random: () => number): number[] {
  return Array.from({ length: AGENTS }, () => {
    const backoff = new Backoff(BACKOFF_MS.first, BACKOFF_MS.max, random)
    let at = backoff.next()
    while (at < downMs) at += FAILED_DIAL_MS + backoff.next()
    return at - downMs
  }).sort((a, b) => a - b)
}

/** The most that return within any second. */
function peak(times: readonly number[]): number {
  return Math.max(...times.map((end, at) => at + 1 - times.findIndex((start) => start > end - 1000)))
}

test('after an outage 95 % of 900 agents are back within 8 s and all within 9 s', (t) => {
  t.diagnostic(`seed ${SEED}`)
  for (const downMs of [500, 1500, 5000, 30_000, 300_000]) {
    const times = returns(downMs, randomNumbers(SEED))
    const p95 = times[Math.ceil(AGENTS * 0.95) - 1] ?? Infinity
    assert.ok(p95 <= 8000, `down ${downMs} ms: p95 is ${p95} ms`)
    assert.ok(
      (times.at(-1) ?? Infinity) <= BACKOFF_MS.max,
      `down ${downMs} ms: the last comes after ${times.at(-1)} ms`,
    )
  }
})

test('after an outage of 5 s or more at most 200 of 900 agents return within any second', (t) => {
  t.diagnostic(`seed ${SEED}`)
  for (const downMs of [5000, 10_000, 30_000, 60_000, 300_000]) {
    const most = peak(returns(downMs, randomNumbers(SEED)))
    assert.ok(most <= 200, `down ${downMs} ms: ${most} within a second`)
  }
})
