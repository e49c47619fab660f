import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import {
  CELL_BYTES,
  CELL_PAYLOAD_BYTES,
  type CellEvent,
  CellJoiner,
  cutEnvelope,
  makeCell,
} from '../../src/traffic/cell.ts'
import { check } from '../seed.ts'

const MAX = 4_194_304

interface Sent {
  readonly type: CellEvent['type'] | 'cover'
  readonly payload: Uint8Array
}

const envelopes = fc
  .tuple(
    fc.oneof(fc.integer({ min: 1, max: 5000 }), fc.constantFrom(1020, 1021, 1022, 2042, 2043, 4096, 65_536)),
    fc.nat({ max: 255 }),
  )
  .map(([length, first]) => Uint8Array.from({ length }, (_, at) => first + at))
const lone: fc.Arbitrary<Sent> = fc
  .oneof(
    fc.tuple(fc.constantFrom('cover' as const, 'coverAsk' as const), fc.constant(new Uint8Array())),
    fc.tuple(
      fc.constantFrom('ping' as const, 'pong' as const, 'ack' as const),
      fc.uint8Array({ maxLength: CELL_PAYLOAD_BYTES }),
    ),
  )
  .map(([type, payload]) => ({ type, payload }))
const sent: fc.Arbitrary<Sent> = fc.oneof(
  envelopes.map((payload) => ({ type: 'envelope' as const, payload })),
  lone,
)

const toCells = ({ type, payload }: Sent): Uint8Array =>
  type === 'envelope' ? cutEnvelope(payload) : makeCell(type, payload)

/** Feeds a stream in chunks of the lengths given (over and over), each in a buffer that is wiped afterwards. */
function join(stream: Uint8Array, lengths: readonly number[]): CellEvent[] {
  const joiner = new CellJoiner(MAX)
  const events: CellEvent[] = []
  for (let at = 0, turn = 0; at < stream.length; turn++) {
    const length = lengths[turn % lengths.length] ?? 1
    const chunk = stream.slice(at, at + length)
    joiner.push(chunk, ({ type, payload }) => events.push({ type, payload: payload.slice() }))
    chunk.fill(0xee)
    at += length
  }
  joiner.end()
  assert.equal(joiner.heldBytes, 0)
  return events
}

function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(parts.flatMap((part) => [...part]))
}

void test('Cells return what was sent, in whatever chunks it arrives', (t) => {
  const chunks = fc.array(fc.oneof(fc.integer({ min: 1, max: 3000 }), fc.constantFrom(1, 1023, 1024, 1025)), {
    minLength: 1,
    maxLength: 8,
  })
  const property = fc.property(fc.array(sent, { maxLength: 8 }), chunks, (things, lengths) => {
    const expected = things.filter(({ type }) => type !== 'cover')
    assert.deepEqual(join(concat(things.map(toCells)), lengths), expected)
  })
  check(t, 400, property)
})

void test('Cells are 1,024 bytes each, complete, and as few as possible', (t) => {
  const property = fc.property(envelopes, (envelope) => {
    const cells = cutEnvelope(envelope)
    assert.equal(cells.length, Math.ceil(envelope.length / CELL_PAYLOAD_BYTES) * CELL_BYTES)
    assert.equal(cells.buffer.byteLength, cells.length)
  })
  check(t, 300, property)
  for (const type of ['cover', 'coverAsk', 'ping', 'pong', 'ack'] as const)
    assert.equal(makeCell(type).length, CELL_BYTES)
  assert.deepEqual(makeCell('cover'), new Uint8Array(CELL_BYTES))
})

void test('Cells of other kinds may come between those of an envelope', (t) => {
  const property = fc.property(envelopes, lone, fc.nat({ max: 70 }), (envelope, between, place) => {
    const cells = cutEnvelope(envelope)
    const at = Math.min(place * CELL_BYTES, cells.length)
    const stream = concat([cells.subarray(0, at), toCells(between), cells.subarray(at)])
    const events = join(stream, [700])
    const kinds = between.type === 'cover' ? ['envelope'] : ['envelope', between.type]
    assert.deepEqual(events.map((event) => event.type).sort(), kinds.sort())
    assert.deepEqual(events.find((event) => event.type === 'envelope')?.payload, envelope)
  })
  check(t, 200, property)
})

void test('Cells accept a limit that rises between two cells of one chunk', () => {
  const long = cutEnvelope(new Uint8Array(10_000).fill(7))
  const stream = concat([cutEnvelope(Uint8Array.of(1)), long])
  const joiner = new CellJoiner(4096)
  const lengths: number[] = []
  joiner.push(stream, ({ payload }) => {
    lengths.push(payload.length)
    joiner.limit = 65_536
  })
  assert.deepEqual(lengths, [1, 10_000])
})

void test('Cells reject content that does not fit', () => {
  assert.throws(() => cutEnvelope(new Uint8Array()), RangeError)
  assert.throws(() => makeCell('ping', new Uint8Array(CELL_PAYLOAD_BYTES + 1)), RangeError)
  assert.throws(() => makeCell('cover', new Uint8Array(1)), RangeError)
})
