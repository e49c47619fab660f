/** The clock of `private` and `strict`: what leaves, and above all when. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import {
  CELL_BYTES,
  type CellEvent,
  CellJoiner,
  cutEnvelope,
  makeCell,
  type Pace,
  Pacer,
  paceOf,
} from '../../src/index.ts'
import { randomNumbers, SEED } from '@static/testkit/random'
import { check } from '../seed.ts'

const STRICT: Pace = { type: 'steady', cellsPerSecond: 4 }
const PRIVATE: Pace = { type: 'ladder' }

/** Lets a pacer tick until a time; what left, and when. */
function run(pacer: Pacer, until: number): { cells: Uint8Array[]; times: number[] } {
  const cells: Uint8Array[] = []
  const times: number[] = []
  while (pacer.due <= until) {
    times.push(pacer.due)
    cells.push(pacer.tick(pacer.due))
  }
  return { cells, times }
}

function joined(cells: readonly Uint8Array[]): CellEvent[] {
  const events: CellEvent[] = []
  const joiner = new CellJoiner(8 * 1024 * 1024)
  for (const cell of cells) joiner.push(cell, ({ type, payload }) => events.push({ type, payload: payload.slice() }))
  joiner.end()
  return events
}

test('all messages come out unchanged, in cells of one size, with pings between them', (t) => {
  const envelope = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 300 }),
    fc.uint8Array({ minLength: 1, maxLength: 9000 }),
  )
  const ping = fc.uint8Array({ maxLength: 8 })
  const step = fc.record({ envelope: fc.option(envelope), ping: fc.option(ping), pause: fc.nat({ max: 20_000 }) })
  const pace = fc.constantFrom(STRICT, PRIVATE)
  check(
    t,
    200,
    fc.property(fc.array(step, { maxLength: 12 }), pace, fc.integer(), (steps, given, seed) => {
      const pacer = new Pacer(given, randomNumbers(seed), 0)
      const cells: Uint8Array[] = []
      let now = 0
      for (const { envelope: sent, ping: urgent, pause } of steps) {
        if (sent) pacer.push(cutEnvelope(sent), false, now)
        if (urgent) pacer.push(makeCell('ping', urgent), true, now)
        now += pause
        cells.push(...run(pacer, now).cells)
      }
      while (pacer.waiting > 0) cells.push(pacer.tick(pacer.due))
      for (const cell of cells) assert.equal(cell.length, CELL_BYTES)
      const events = joined(cells)
      const of = (type: string): Uint8Array[] => events.filter((event) => event.type === type).map((e) => e.payload)
      assert.deepEqual(
        of('envelope'),
        steps.flatMap(({ envelope: sent }) => (sent ? [sent] : [])),
      )
      assert.deepEqual(
        of('ping'),
        steps.flatMap(({ ping: urgent }) => (urgent ? [urgent] : [])),
      )
    }),
  )
})

test('in strict no tick moves, whatever is sent', (t) => {
  check(
    t,
    100,
    fc.property(fc.integer(), fc.array(fc.nat({ max: 60_000 }), { maxLength: 40 }), (seed, moments) => {
      const idle = new Pacer(STRICT, randomNumbers(seed), 0)
      const busy = new Pacer(STRICT, randomNumbers(seed), 0)
      const times: number[] = []
      for (const at of moments.toSorted((a, b) => a - b)) {
        times.push(...run(busy, at).times)
        busy.push(cutEnvelope(new Uint8Array(5000).fill(1)), false, at)
        busy.push(makeCell('pong'), true, at)
      }
      times.push(...run(busy, 60_000).times)
      assert.deepEqual(times, run(idle, 60_000).times)
    }),
  )
})

test('in strict the rate is the requested one, within a tenth of a period', () => {
  for (const cellsPerSecond of [1, 4, 16, 64]) {
    const { times } = run(new Pacer({ type: 'steady', cellsPerSecond }, randomNumbers(SEED), 0), 100_000)
    const period = 1000 / cellsPerSecond
    assert.ok(Math.abs(times.length - 100 * cellsPerSecond) <= 1, `${times.length}`)
    // The first tick falls anywhere in a period; the others lie on the grid from there.
    const [, ...rest] = times
    rest.forEach((at, index) => {
      assert.ok(Math.abs(at - ((times[0] ?? 0) + (index + 1) * period)) <= 0.1 * period + 1e-6)
    })
  }
})

test('missed ticks are not made up for', () => {
  const pacer = new Pacer(STRICT, randomNumbers(SEED), 0)
  run(pacer, 1000)
  pacer.tick(5000)
  assert.ok(pacer.due > 5000 && pacer.due <= 5000 + 400, `${pacer.due}`)
})

test('a late tick keeps its distance from the next one, however late it is', () => {
  const pacer = new Pacer(STRICT, randomNumbers(SEED), 0)
  for (let count = 0; count < 1000; count++) {
    const now = pacer.due + (count % 250)
    pacer.tick(now)
    assert.ok(pacer.due - now >= 100 - 1e-6, `${pacer.due - now} ms`)
  }
})

test('private starts at 16 cells a second and drops a step every 10 s while idle', () => {
  const pacer = new Pacer(PRIVATE, randomNumbers(SEED), 0)
  const levels = [5000, 15_000, 25_000, 95_000].map((until) => {
    run(pacer, until)
    return pacer.level
  })
  assert.deepEqual(levels, [16, 4, 1, 1])
})

test('private rises at the next 10 s mark as far as needed, and not before', () => {
  const pacer = new Pacer(PRIVATE, randomNumbers(SEED), 0)
  run(pacer, 32_000)
  pacer.push(cutEnvelope(new Uint8Array(600_000)), false, 32_000)
  run(pacer, 39_500)
  assert.equal(pacer.level, 1)
  run(pacer, 41_500)
  assert.equal(pacer.level, 64)
  run(pacer, 49_500)
  assert.equal(pacer.level, 64)
})

test('in private no tick moves within 10 s, whatever is sent', (t) => {
  check(
    t,
    50,
    fc.property(fc.integer(), fc.nat({ max: 9000 }), (seed, at) => {
      const idle = new Pacer(PRIVATE, randomNumbers(seed), 0)
      const busy = new Pacer(PRIVATE, randomNumbers(seed), 0)
      const before = run(busy, at).times
      busy.push(cutEnvelope(new Uint8Array(100_000)), false, at)
      assert.deepEqual([...before, ...run(busy, 9_999).times], run(idle, 9_999).times)
    }),
  )
})

test('a peer that asks for more pongs than the clock can send costs no memory', () => {
  const pacer = new Pacer(STRICT, randomNumbers(SEED), 0)
  for (let count = 0; count < 10_000; count++) pacer.push(makeCell('pong', Uint8Array.of(count >>> 8, count)), true, 0)
  assert.equal(pacer.waiting, 256)
  // The newest speak for the others.
  const events = joined(run(pacer, 70_000).cells)
  assert.deepEqual(events.at(-1)?.payload, Uint8Array.of(9999 >>> 8, 9999 & 0xff))
})

test('a ping does not wait for a long message', () => {
  const pacer = new Pacer(STRICT, randomNumbers(SEED), 0)
  pacer.push(cutEnvelope(new Uint8Array(260_000)), false, 0)
  run(pacer, 2000)
  pacer.push(makeCell('ping'), true, 2000)
  const [next] = run(pacer, 2300).cells
  assert.deepEqual(next, makeCell('ping'))
})

test('it counts the cells sent and how long they waited', () => {
  const pacer = new Pacer({ type: 'steady', cellsPerSecond: 10 }, () => 0.5, 0)
  pacer.push(makeCell('pong'), true, 0)
  run(pacer, 1000)
  assert.deepEqual(pacer.counts, { real: 1, cover: 9, waitedMs: 50 })
})

test('only whole cells can be sent', () => {
  assert.throws(() => new Pacer(STRICT, randomNumbers(SEED), 0).push(new Uint8Array(1000), false, 0), RangeError)
})

test('profiles without a clock have no pace', () => {
  assert.deepEqual(
    (['off', 'standard', 'private', 'strict'] as const).map((profile) => paceOf(profile, 0)),
    [undefined, undefined, { type: 'ladder' }, { type: 'steady', cellsPerSecond: 4 }],
  )
})
