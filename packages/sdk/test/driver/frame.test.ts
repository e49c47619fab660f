import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { encodePipeFrame, type PipeFrame, PipeFrameReader } from '../../src/driver/pipe-frame.ts'
import { SEED } from '@static/testkit/random'

test('frames round-trip, however the pipe splits them', () => {
  const frames = fc.array(fc.record({ header: fc.jsonValue(), bytes: fc.uint8Array({ maxLength: 300 }) }))
  fc.assert(
    fc.property(frames, fc.infiniteStream(fc.integer({ min: 1, max: 100 })), (given, cuts) => {
      // As JSON has them: -0 is 0 there.
      const sent = given.map(({ header, bytes }) => ({ header: JSON.parse(JSON.stringify(header)), bytes }))
      const pipe = Buffer.concat(sent.flatMap(({ header, bytes }) => encodePipeFrame(header, bytes)))
      const reader = new PipeFrameReader()
      const got: PipeFrame[] = []
      for (let at = 0; at < pipe.length;) {
        const [length = 1] = cuts.take(1)
        got.push(...reader.push(pipe.subarray(at, at + length)))
        at += length
      }
      assert.deepEqual(
        got.map(({ header, bytes }) => ({ header, bytes: new Uint8Array(bytes) })),
        sent,
      )
    }),
    { seed: SEED },
  )
})

test('an impossible frame is refused before its bytes arrive', () => {
  const long = Buffer.from([0, 16, 0, 1])
  assert.throws(() => new PipeFrameReader().push(long), RangeError)
  const short = Buffer.from([0, 0, 0, 3, 1, 1, 1])
  assert.throws(() => new PipeFrameReader().push(short), RangeError)
  const header = Buffer.from([0, 0, 0, 6, 0, 0, 0, 9, 1, 1])
  assert.throws(() => new PipeFrameReader().push(header), RangeError)
})
