import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CELL_BYTES, CELL_TYPES, CellJoiner, cutEnvelope, makeCell } from '../../src/traffic/cell.ts'
import { WireError } from '../../src/wire/wire-error.ts'
import { randomNumbers, SEED } from '@static/testkit/random'

const { cover, coverAsk, ping, whole, first, next, last } = CELL_TYPES
const ignore = (): void => {}

/** A cell with any head and filling. */
function cell(type: number, length: number, fill = 1): Uint8Array {
  const bytes = new Uint8Array(CELL_BYTES)
  bytes.set([type, length >>> 8, length & 255])
  bytes.fill(fill, 3, 3 + length)
  return bytes
}

function withPadding(at: number): Uint8Array {
  const bytes = makeCell('ping', Uint8Array.of(1))
  bytes[at] = 1
  return bytes
}

const refused: readonly [about: string, fault: string, ...cells: Uint8Array[]][] = [
  ['an unknown type', 'cell-type', cell(9, 1)],
  ['type 255', 'cell-type', cell(255, 1)],
  ['a length of 1,022', 'cell-length', cell(ping, 1022)],
  ['a length of 65,535', 'cell-length', cell(ping, 65_535)],
  ['a bit after the payload', 'cell-padding', withPadding(4)],
  ['a bit at the end of the padding', 'cell-padding', withPadding(1023)],
  ['cover with a payload', 'cell-length', cell(cover, 1)],
  ['cover with hidden bytes', 'cell-padding', Uint8Array.from({ length: CELL_BYTES }, (_, at) => (at === 500 ? 1 : 0))],
  ['cover that asks, with a payload', 'cell-length', cell(coverAsk, 1)],
  ['an empty envelope', 'cell-length', cell(whole, 0)],
  ['a start that is not full', 'cell-length', cell(first, 1020)],
  ['a middle that is not full', 'cell-length', cell(first, 1021), cell(next, 1020)],
  ['an end that is empty', 'cell-length', cell(first, 1021), cell(last, 0)],
  ['a middle without a start', 'cell-order', cell(next, 1021)],
  ['an end without a start', 'cell-order', cell(last, 5)],
  ['a second start', 'cell-order', cell(first, 1021), cell(first, 1021)],
  ['a whole envelope within another', 'cell-order', cell(first, 1021), cell(whole, 5)],
  ['an end after the end', 'cell-order', cell(first, 1021), cell(last, 5), cell(last, 5)],
]

for (const [about, fault, ...cells] of refused) {
  void test(`cells: ${about} is refused for good`, () => {
    const joiner = new CellJoiner(4096)
    const isFault = (error: unknown): boolean => error instanceof WireError && error.fault === fault
    assert.throws(() => cells.forEach((bytes) => joiner.push(bytes, ignore)), isFault)
    assert.equal(joiner.heldBytes, 0)
    assert.throws(() => joiner.push(makeCell('cover'), ignore), isFault)
  })
}

void test('cells: an envelope one byte over the limit is refused, whole or in parts', () => {
  for (const limit of [1, 1021, 1022, 4096, 65_536]) {
    const accept = new CellJoiner(limit)
    let length = 0
    accept.push(cutEnvelope(new Uint8Array(limit)), ({ payload }) => (length = payload.length))
    assert.equal(length, limit)
    const refuse = new CellJoiner(limit)
    assert.throws(
      () => refuse.push(cutEnvelope(new Uint8Array(limit + 1)), ignore),
      (error) => error instanceof WireError && error.fault === 'too-large',
    )
  }
})

void test('cells: a stream that ends inside a cell or an envelope is refused', () => {
  for (const bytes of [new Uint8Array(1), cell(first, 1021), new Uint8Array(1500)]) {
    const joiner = new CellJoiner(4096)
    joiner.push(bytes, ignore)
    assert.throws(() => joiner.end(), WireError)
  }
})

void test('cells: garbage uses no more memory than the limit allows', (t) => {
  t.diagnostic(`seed ${SEED}`)
  const random = randomNumbers(SEED)
  for (let run = 0; run < 2000; run++) {
    const limit = 4096
    const joiner = new CellJoiner(limit)
    try {
      for (let chunks = 0; chunks < 50; chunks++) {
        const bytes = Uint8Array.from({ length: Math.floor(random() * 3000) }, () => random() * 256)
        // Mostly plausible heads, so that the walk gets further than the first cell.
        if (random() < 0.9)
          bytes.set(cell([first, next, last, whole][Math.floor(random() * 4)] ?? 0, 1021).subarray(0, bytes.length))
        joiner.push(random() < 0.7 ? bytes.subarray(0, CELL_BYTES) : bytes, ignore)
        assert.ok(joiner.heldBytes <= 2 * limit + CELL_BYTES)
      }
    } catch (error) {
      if (!(error instanceof WireError)) throw error
      assert.equal(joiner.heldBytes, 0)
    }
  }
})

void test('cells: an endless envelope is cut off at the limit', () => {
  const joiner = new CellJoiner(65_536)
  joiner.push(cell(first, 1021), ignore)
  let cells = 1
  assert.throws(() => {
    for (; cells < 1000; cells++) joiner.push(cell(next, 1021), ignore)
  }, WireError)
  assert.equal(cells, Math.floor(65_536 / 1021))
})
