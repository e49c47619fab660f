import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  allocate,
  concat,
  fromBase64url,
  isZero,
  latin1,
  same,
  toBase64,
  toBase64url,
  utf8,
  utf8Text,
  viewOf,
  writeUtf8,
} from '../../src/platform/bytes.ts'

/** Bytes that begin anywhere in their memory, so that no helper may count on a whole one or an even offset. */
const anyBytes = fc
  .tuple(fc.uint8Array({ maxLength: 300 }), fc.nat(9))
  .map(([bytes, skipped]) => bytes.subarray(Math.min(skipped, bytes.length)))
const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: 'binary-ascii' }),
)
/** UTF-16 as it may be, with halves of pairs. */
const anyUnits = fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units))

test('texts and bytes are converted as Buffer converts them', () => {
  fc.assert(
    fc.property(anyBytes, (bytes) => {
      const buffer = Buffer.from(bytes)
      assert.equal(latin1(bytes), buffer.toString('latin1'))
      assert.equal(utf8Text(bytes), buffer.toString())
      assert.equal(toBase64(bytes), buffer.toString('base64'))
      assert.equal(toBase64url(bytes), buffer.toString('base64url'))
      assert.deepEqual(fromBase64url(toBase64url(bytes)), Uint8Array.from(bytes))
    }),
  )
  fc.assert(
    fc.property(fc.oneof(anyText, anyUnits, fc.string({ minLength: 120, maxLength: 140 })), (text) => {
      assert.deepEqual(utf8(text), new Uint8Array(Buffer.from(text)))
      assert.equal(utf8Text(utf8(text)), Buffer.from(text).toString())
      const written = new Uint8Array(3 + 3 * text.length)
      assert.equal(writeUtf8(written, 3, text), Buffer.byteLength(text))
      assert.deepEqual(written.slice(3, 3 + Buffer.byteLength(text)), utf8(text))
    }),
  )
  // More than one call takes.
  const many = Uint8Array.from({ length: 200_000 }, (_, at) => at * 7)
  assert.equal(latin1(many), Buffer.from(many).toString('latin1'))
  // Text that begins with a byte order mark keeps it.
  assert.equal(utf8Text(Uint8Array.of(0xef, 0xbb, 0xbf, 65)), Buffer.of(0xef, 0xbb, 0xbf, 65).toString())
})

test('only canonical base64url is read', () => {
  const read = (text: string): Uint8Array | undefined => {
    const bytes = Buffer.from(text, 'base64url')
    return bytes.toString('base64url') === text ? new Uint8Array(bytes) : undefined
  }
  const nearly = fc.string({ unit: fc.constantFrom(...Array.from('ABCabz019-_+/= \n')), maxLength: 12 })
  fc.assert(
    fc.property(fc.oneof(nearly, anyText), (text) => assert.deepEqual(fromBase64url(text), read(text))),
    {
      numRuns: 1000,
    },
  )
})

test('byte strings are compared and joined as Buffer does', () => {
  fc.assert(
    fc.property(anyBytes, anyBytes, fc.nat(), (one, other, place) => {
      assert.equal(same(one, other), Buffer.compare(one, other) === 0)
      assert.ok(same(one, Uint8Array.from(one)))
      assert.deepEqual(concat(one, other, one), new Uint8Array(Buffer.concat([one, other, one])))
      const changed = Uint8Array.from(one)
      if (changed.length > 0) changed[place % changed.length]! ^= 1 << (place & 7)
      assert.equal(same(one, changed), one.length === 0)
      assert.equal(viewOf(one).byteLength, one.length)
    }),
  )
})

test('every bit that is not zero is noticed', () => {
  for (let start = 0; start < 5; start++) {
    for (let length = 0; length < 20; length++) {
      const memory = new Uint8Array(32).fill(0xff)
      const bytes = memory.subarray(start, start + length)
      bytes.fill(0)
      assert.ok(isZero(bytes))
      for (let bit = 0; bit < 8 * length; bit++) {
        bytes[bit >> 3] = 1 << (bit & 7)
        assert.ok(!isZero(bytes), `bit ${bit} of ${length} bytes at ${start}`)
        bytes[bit >> 3] = 0
      }
    }
  }
})

test('arrays that share memory do not overlap, and are zero', () => {
  const arrays = Array.from({ length: 5000 }, (_, at) => allocate((at * 37) % 400))
  arrays.push(allocate(70_000), allocate(40_000), allocate(0))
  for (const [at, array] of arrays.entries()) {
    assert.ok(isZero(array))
    array.fill(at & 0xff)
  }
  for (const [at, array] of arrays.entries()) assert.ok(array.every((byte) => byte === (at & 0xff)))
  assert.deepEqual(
    arrays.slice(-3).map(({ length }) => length),
    [70_000, 40_000, 0],
  )
})
