/** Messages between nodes: whoever carries one can neither forge, change nor redirect it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { fromHex, toHex } from '@static/protocol'
import { encodeItem, openFrame, sealFrame } from '../../src/bus/frame.ts'
import type { News } from '../../src/ports.ts'
import { deriveKey } from '../../src/store/postgres/relay-key.ts'

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

test('vectors: keys of nodes, and a message between them', () => {
  interface Nodes {
    readonly relay_key: string
    readonly relay_id: string
    readonly token: { readonly key: string }
    readonly bus: { readonly key: string }
    readonly message: Record<'subject' | 'node' | 'bytes' | 'frame', string> & Record<'number' | 'time', number>
  }
  const file = resolve(import.meta.dirname, '../../../../tests/vectors', 'nodes.json')
  const nodes = JSON.parse(readFileSync(file, 'utf8')) as Nodes
  const [key, relayId] = [fromHex(nodes.relay_key), fromHex(nodes.relay_id)]
  assert.equal(toHex(deriveKey(key, relayId, 'token')), nodes.token.key)
  const busKey = deriveKey(key, relayId, 'bus')
  assert.equal(toHex(busKey), nodes.bus.key)
  const { subject, node, number, time, bytes, frame } = nodes.message
  const { items, ...head } = openFrame(busKey, subject, fromHex(frame)) ?? assert.fail()
  assert.deepEqual([head, items()], [{ node, number, time }, [{ type: 'example', id: fromHex(bytes) }]])
  const item = { type: 'example', id: fromHex(bytes) } as unknown as News
  assert.equal(toHex(sealFrame(busKey, subject, { node, number, time }, [encodeItem(item)])), frame)
})
