import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { CELL_BYTES, CellUnframer, frameCells, frameMessage, GRPC_PREFIX_BYTES } from '@static/protocol'

test('cells are extracted from their frames, whatever chunks these arrive in', () => {
  fc.assert(
    fc.property(fc.nat(3), fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 1 }), (count, sizes) => {
      const cells = Uint8Array.from({ length: count * CELL_BYTES }, (_, at) => at % 251)
      const frames = frameCells(cells)
      const unframer = new CellUnframer()
      const parts: Uint8Array[] = []
      for (let at = 0, turn = 0; at < frames.length; turn++) {
        const size = sizes[turn % sizes.length] ?? 1
        parts.push(unframer.push(frames.subarray(at, at + size)))
        at += size
      }
      assert.deepEqual(Uint8Array.from(Buffer.concat(parts)), cells)
      assert.ok(unframer.isWhole)
      assert.equal(unframer.fault, undefined)
    }),
  )
})

test('anything that is not a cell is an error, and nothing is read after it', () => {
  for (const [bytes, fault] of [
    [[1], 'compressed'],
    [[0, 0, 0, 4, 4], 'not-a-cell'],
  ] as const) {
    const unframer = new CellUnframer()
    assert.equal(unframer.push(Uint8Array.from(bytes)).length, 0)
    assert.equal(unframer.fault, fault)
    assert.equal(unframer.push(frameCells(new Uint8Array(CELL_BYTES))).length, 0)
  }
  assert.throws(() => frameCells(new Uint8Array(CELL_BYTES - 1)), RangeError)
})

test('a message is preceded by its length', () => {
  const frame = frameMessage(new Uint8Array(70_000).fill(7))
  assert.deepEqual([...frame.subarray(0, GRPC_PREFIX_BYTES + 1)], [0, 0, 1, 0x11, 0x70, 7])
})
