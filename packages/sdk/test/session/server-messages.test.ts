import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DescMessage } from '@bufbuild/protobuf'
import { ScalarType } from '@bufbuild/protobuf'
import { ServerMessageSchema } from '@static/protocol/relay'
import { outOfBounds } from '../../src/session/server-messages.ts'

/**
 * Bytes of any length. The last three have one, which their users check: the answer to a challenge, and a join, which
 * knows the hash of the key. Of the bitmap of a file's parts, an upload reads only the bits of its parts.
 */
const ANY_LENGTH = [
  'box',
  'ciphertext',
  'commit',
  'keyPackage',
  'tag',
  'welcome',
  'parts',
  'nonce',
  'relayId',
  'boxKey',
]

/** The names of all bytes that a relay can send, however deep. */
function bytesIn(schema: DescMessage, seen = new Set<DescMessage>()): string[] {
  if (seen.has(schema)) return []
  seen.add(schema)
  return schema.fields.flatMap((field) => {
    if (field.message) return bytesIn(field.message, seen)
    return field.scalar === ScalarType.BYTES ? [field.localName] : []
  })
}

test('every bytes field of the relay has a length that is checked, or may have any', () => {
  const names = new Set(bytesIn(ServerMessageSchema))
  assert.ok(names.size > 20, `${names.size} names`)
  for (const name of names) {
    const isChecked = outOfBounds({ [name]: new Uint8Array(33) }) !== undefined
    assert.equal(isChecked, !ANY_LENGTH.includes(name), name)
    assert.equal(outOfBounds({ deep: [{ [name]: [new Uint8Array(33)] }] }) !== undefined, isChecked, name)
  }
})

test('lengths and numbers within bounds pass, and a fault is named with its value', () => {
  const position = { index: 2n ** 52n, hash: new Uint8Array(32), slot: 0n }
  assert.equal(outOfBounds({ requestId: 0n, body: { case: 'gap', value: { position, last: undefined } } }), undefined)
  assert.equal(outOfBounds({ leafKeys: [], owner: new Uint8Array(), text: 'x'.repeat(33) }), undefined)
  const late = { body: { value: { position: { ...position, index: 2n ** 52n + 1n } } } }
  assert.equal(outOfBounds(late), 'a number out of range, 4503599627370497 as index')
  const long = { body: { value: { position: { ...position, hash: new Uint8Array(200) } } } }
  assert.equal(outOfBounds(long), '200 bytes as hash, which has 32')
  assert.equal(outOfBounds({ hash: new Uint8Array() }), '0 bytes as hash, which has 32')
  const keys = { leafKeys: [new Uint8Array(32), new Uint8Array(17)] }
  assert.equal(outOfBounds({ notice: keys }), '17 bytes as leafKeys, which has 32')
})
