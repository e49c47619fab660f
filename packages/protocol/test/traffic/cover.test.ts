/** Cover in `standard`: units, moments, answers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import {
  CELL_BYTES,
  CellJoiner,
  CoverClock,
  cutEnvelope,
  makeCell,
  outsideRange,
  UNIT_CELLS,
  UsualTime,
  wholeUnits,
} from '../../src/index.ts'
import { randomNumbers, SEED } from '@static/testkit/random'
import { check } from '../seed.ts'

const UNIT_BYTES = UNIT_CELLS * CELL_BYTES

function types(cells: Uint8Array): string[] {
  const found: string[] = []
  new CellJoiner(1_000_000).push(cells, ({ type }) => found.push(type))
  return found
}

test('everything sent is filled up to whole units, without a change in content', (t) => {
  check(
    t,
    200,
    fc.property(fc.array(fc.uint8Array({ minLength: 1, maxLength: 4000 }), { minLength: 1, maxLength: 5 }), (sent) => {
      const cells = Buffer.concat(sent.map((envelope) => cutEnvelope(envelope)))
      const units = wholeUnits(cells)
      assert.equal(units.length % UNIT_BYTES, 0)
      assert.ok(units.length - cells.length < UNIT_BYTES)
      const taken: Uint8Array[] = []
      new CellJoiner(4000).push(units, ({ payload }) => taken.push(new Uint8Array(payload)))
      assert.deepEqual(taken, sent)
    }),
  )
})

test('cover is sent at random times, about every 10 s, one unit at a time, and asks for a response', () => {
  const clock = new CoverClock(randomNumbers(SEED), 0)
  const gaps: number[] = []
  for (let last = 0; last < 40_000_000; last = clock.due) {
    const { due } = clock
    assert.equal(clock.take(due - 0.001), undefined)
    const unit = clock.take(due)
    assert.equal(unit?.length, UNIT_BYTES)
    assert.deepEqual(types(unit ?? new Uint8Array()), ['coverAsk'])
    gaps.push(clock.due - due)
  }
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length
  const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length)
  assert.ok(Math.abs(mean - 10_000) < 600, `mean ${mean}`)
  // As wide as it is long: nothing follows from the time of the last one.
  assert.ok(Math.abs(deviation / mean - 1) < 0.1, `deviation ${deviation}`)
})

test('a response to cover takes as long as recent real ones, and consists only of cover', () => {
  const usual = new UsualTime()
  const clock = new CoverClock(() => 0.9, 0)
  clock.asked(usual, 100)
  assert.equal(clock.due, 103)
  assert.equal(clock.take(102), undefined)
  assert.deepEqual(clock.take(103), new Uint8Array(UNIT_BYTES))
  for (const took of [7, 9]) usual.note(took)
  clock.asked(usual, 200)
  assert.equal(clock.due, 209)
})

test('only the most recent real responses count', () => {
  const usual = new UsualTime()
  for (let took = 1; took <= 100; took++) usual.note(took)
  const picked = Array.from({ length: 100 }, (_, at) => usual.pick(at / 100))
  assert.equal(Math.min(...picked), 69)
  assert.equal(Math.max(...picked), 100)
})

test('a peer that asks often gets one response at a time', () => {
  const clock = new CoverClock(() => 0.9, 0)
  for (let asked = 0; asked < 1000; asked++) clock.asked(new UsualTime(), 50)
  assert.ok(clock.take(60))
  assert.equal(clock.take(60), undefined)
})

test('cover asks in the last cell of its unit', () => {
  const unit = new CoverClock(() => 0, 0).take(0)
  assert.deepEqual(unit?.subarray(CELL_BYTES), makeCell('coverAsk'))
})

test('a floor and a ceiling allow the profiles between them', () => {
  const range = { floor: 'standard', ceiling: 'private' } as const
  assert.deepEqual(
    (['off', 'standard', 'private', 'strict'] as const).map((profile) => outsideRange(profile, range)),
    [
      'The traffic profile off is below the minimum of this relay. Use standard or higher.',
      undefined,
      undefined,
      'The traffic profile strict is above the maximum of this relay. Use private or lower.',
    ],
  )
})
