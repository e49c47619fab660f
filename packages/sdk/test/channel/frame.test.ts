import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { decodeFrame, encodeFrame, type Frame, type FrameKind } from '../../src/channel/sending/message-frame.ts'
import { packIdOf } from '../../src/channel/sending/pack.ts'
import { SEED } from '@static/testkit/random'

const bytes = (length: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ minLength: length, maxLength: length })
const frame = fc.record({
  kind: fc.constantFrom<FrameKind>('payload', 'heartbeat', 'hello', 'greeting'),
  messageId: bytes(16).map((id) => packIdOf(id)),
  counter: fc.maxSafeNat(),
  previous: bytes(32),
  seen: fc.record({ index: fc.maxSafeNat(), hash: bytes(32) }),
  payload: fc.uint8Array({ maxLength: 300 }),
})
const ONE: Frame & { kind: 'payload' } = {
  kind: 'payload',
  messageId: new Uint8Array(16).fill(0x10),
  counter: 2,
  previous: new Uint8Array(32).fill(3),
  seen: { index: 4, hash: new Uint8Array(32).fill(5) },
  payload: Buffer.from('six'),
}
const HEAD = 98

test('a frame survives encoding and decoding', (t) => {
  t.diagnostic(`seed ${SEED}`)
  fc.assert(
    fc.property(frame, fc.nat({ max: 7 }), (frame, offset) => {
      const encoded = encodeFrame(frame)
      // Also from the middle of another buffer.
      const within = Buffer.concat([Buffer.alloc(offset), encoded]).subarray(offset)
      assert.deepEqual(plain(decodeFrame(within)), plain(frame))
    }),
    { seed: SEED },
  )
})

test('a frame has the layout of the specification', () => {
  const encoded = Buffer.from(encodeFrame(ONE))
  assert.equal(encoded.length, HEAD + 3)
  const expected = [
    '01',
    '00',
    '10'.repeat(16),
    '0000000000000002',
    '03'.repeat(32),
    '0000000000000004',
    '05'.repeat(32),
  ]
  assert.equal(encoded.toString('hex'), expected.join('') + Buffer.from('six').toString('hex'))
})

test('bytes that are too short, of version 0 or with numbers out of range are not a frame', () => {
  const encoded = encodeFrame(ONE)
  for (let length = 0; length < HEAD; length++) assert.equal(decodeFrame(encoded.subarray(0, length)), undefined)
  assert.equal(decodeFrame(encoded.subarray(0, HEAD))?.payload.length, 0)
  assert.equal(decodeFrame(changed(encoded, 0, 0)), undefined)
  // The first byte of the counter, and of the index that was seen.
  assert.equal(decodeFrame(changed(encoded, 18, 1)), undefined)
  assert.equal(decodeFrame(changed(encoded, 58, 1)), undefined)
})

test('an unknown kind is decoded as unknown', () => {
  const decoded = decodeFrame(changed(encodeFrame(ONE), 1, 200))
  assert.ok(decoded)
  assert.equal(decoded.kind, undefined)
  assert.equal(decoded.counter, 2)
})

test('in a later version all fields before the payload are decoded, and the kind is unknown', () => {
  for (const version of [2, 255]) {
    const { payload: _, ...decoded } = decodeFrame(changed(encodeFrame(ONE), 0, version)) ?? assert.fail()
    const { payload: __, ...one } = decodeFrame(Uint8Array.from(encodeFrame(ONE))) ?? assert.fail()
    assert.deepEqual(decoded, { ...one, version, kind: undefined })
  }
})

test('any bytes are decoded or refused without another error', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2 * HEAD }), (bytes) => {
      const decoded = decodeFrame(bytes)
      if (decoded?.kind === undefined) return
      assert.deepEqual(Buffer.from(encodeFrame({ ...decoded, kind: decoded.kind })), Buffer.from(bytes))
    }),
    { seed: SEED },
  )
})

function changed(bytes: Uint8Array, at: number, value: number): Uint8Array {
  return Uint8Array.from(bytes).with(at, value)
}

function plain(frame: Frame | undefined): unknown {
  if (!frame) return undefined
  const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
  const { kind, messageId, counter, previous, seen, payload } = frame
  return [kind, hex(messageId), counter, hex(previous), seen.index, hex(seen.hash), hex(payload)]
}
