/** The limits of transfers, as values: places, pace, and how often an agent fetches a file. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Egress } from '../../src/core/files/egress.ts'
import { type Place, Places } from '../../src/files/places.ts'
import { Throttle } from '../../src/files/throttle.ts'

/** Places, and which of the bodies were ended. */
class Bench {
  readonly places: Places
  readonly ended: string[] = []

  constructor(total: number, perAddress: number) {
    this.places = new Places({ total, perAddress })
  }

  take(address: string, now: number, bytes = 0): Place | undefined {
    const place = this.places.take(address, now, () => this.ended.push(address))
    if (place) place.bytes = bytes
    return place
  }
}

test('an address has its share of the places, and gets them back', () => {
  const bench = new Bench(8, 2)
  const first = bench.take('192.0.2.1', 0)
  assert.ok(first && bench.take('192.0.2.1', 0))
  assert.equal(bench.take('192.0.2.1', 10_000), undefined)
  assert.ok(bench.take('192.0.2.2', 0))
  bench.places.leave(first)
  bench.places.leave(first)
  assert.ok(bench.take('192.0.2.1', 0))
  assert.equal(bench.take('192.0.2.1', 0), undefined)
  assert.deepEqual(bench.ended, [])
})

test('the addresses of an IPv6 network share a limit of their own', () => {
  const bench = new Bench(64, 2)
  const taken = Array.from({ length: 64 }, (_, at) => bench.take(`2001:db8:0:${at.toString(16)}::/64`, 0))
  assert.equal(taken.filter((place) => place !== undefined).length, 32)
})

test('when all places are taken, the slowest body that had time goes', () => {
  const bench = new Bench(3, 3)
  bench.take('192.0.2.1', 0, 5000)
  bench.take('192.0.2.2', 0, 100)
  bench.take('192.0.2.3', 9000, 0)
  assert.ok(bench.take('192.0.2.4', 10_000, 1))
  assert.deepEqual(bench.ended, ['192.0.2.2'])
  assert.equal(bench.places.taken, 3)
  // Of the others, only one had time.
  assert.ok(bench.take('192.0.2.5', 10_000))
  assert.equal(bench.take('192.0.2.6', 10_000), undefined)
  assert.deepEqual(bench.ended, ['192.0.2.2', '192.0.2.1'])
})

test('all bodies together move at the given speed', () => {
  const throttle = new Throttle(1_000_000)
  let now = 5000
  let bytes = 0
  while (now < 15_000) {
    now += throttle.pass(16_384, now)
    bytes += 16_384
  }
  assert.ok(bytes >= 10_000_000 && bytes < 10_400_000, String(bytes))
  // A pause saves up a moment, no more.
  now += 60_000
  bytes = 0
  while (throttle.pass(1000, now) === 0) bytes += 1000
  assert.ok(bytes <= 250_000, String(bytes))
})

test('an agent fetches four times the bytes of a file in an hour', () => {
  const egress = new Egress()
  for (let part = 0; part < 8; part++) assert.equal(egress.take('a', 'file', 50, 100, 1000), 0)
  assert.equal(egress.take('a', 'file', 50, 100, 1000 + 600_000), 3_000_000)
  assert.equal(egress.take('b', 'file', 50, 100, 1000), 0)
  assert.equal(egress.take('a', 'other', 50, 100, 1000), 0)
  assert.equal(egress.take('a', 'file', 50, 100, 1000 + 3_600_000), 0)
})
