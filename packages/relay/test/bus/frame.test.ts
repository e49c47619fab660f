/** Messages between nodes: whoever carries one can neither forge, change nor redirect it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeItem, openFrame, sealFrame } from '../../src/bus/frame.ts'
import type { News } from '../../src/ports.ts'

const KEY = new Uint8Array(32).fill(1)
const SUBJECT = 'static.c.00'
const HEAD = { node: '0f'.repeat(16), number: 7, time: 1_700_000_000_000 }
const NEWS: News = { type: 'reached', channel: 'ab'.repeat(16), index: 3 }
const FRAME = sealFrame(KEY, SUBJECT, HEAD, [encodeItem(NEWS)])

test('a message is read with its key and subject', () => {
  const opened = openFrame(KEY, SUBJECT, FRAME)
  assert.ok(opened)
  const { items, ...head } = opened
  assert.deepEqual([head, items()], [HEAD, [NEWS]])
})

test('a message under another key, for another subject, or with any byte changed is not read', () => {
  assert.equal(openFrame(new Uint8Array(32), SUBJECT, FRAME), undefined)
  assert.equal(openFrame(KEY, 'static.c.01', FRAME), undefined)
  for (const [at, byte] of FRAME.entries()) {
    const changed = Uint8Array.from(FRAME)
    changed[at] = byte ^ 1
    assert.equal(openFrame(KEY, SUBJECT, changed), undefined, `byte ${at}`)
  }
  for (let length = 0; length < FRAME.length; length++)
    assert.equal(openFrame(KEY, SUBJECT, FRAME.subarray(0, length)), undefined, `${length} bytes`)
})
