import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { lengthBytes, parsePrivateMessage, readSpan, writeLength } from '../../src/mls/framing.ts'
import { SEED } from '@static/testkit/random'
import { channelOf } from './support.ts'

test('a length is read as it was written, and never points past the end', () => {
  for (const length of [0, 1, 63, 64, 16_383, 16_384, 70_000]) {
    const bytes = new Uint8Array(lengthBytes(length) + length)
    const start = writeLength(bytes, 0, length)
    assert.equal(start, lengthBytes(length))
    assert.deepEqual(readSpan(bytes, 0), { start, end: bytes.length })
    assert.equal(readSpan(bytes.subarray(0, -1), 0), undefined)
  }
  assert.equal(readSpan(new Uint8Array(), 0), undefined)
})

test('a length has exactly one encoding', () => {
  for (const bytes of [
    [0x40, 1, 9],
    [0x80, 0, 0, 1, 9],
    [0x80, 0, 0x40, 0, ...new Uint8Array(64)],
    [0xc0, 0, 0, 0, 0, 0, 0, 1, 9],
  ])
    assert.equal(readSpan(new Uint8Array(bytes), 0), undefined)
})

test('any bytes are parsed without harm', async () => {
  const message = (await channelOf('owner', 'ann')).agents[0]!.send('x')
  assert.ok(parsePrivateMessage(message))
  assert.equal(parsePrivateMessage(Buffer.concat([message, Buffer.alloc(1)])), undefined)
  fc.assert(
    fc.property(fc.nat({ max: 70 }), fc.nat({ max: 255 }), fc.nat({ max: message.length }), (at, byte, length) => {
      const changed = Uint8Array.from(message.subarray(0, length))
      if (at < changed.length) changed[at] = byte
      parsePrivateMessage(changed)
    }),
    { seed: SEED },
  )
})
