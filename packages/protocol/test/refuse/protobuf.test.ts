import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeEnvelope } from '../../src/wire/envelope.ts'
import { AckRequestSchema, ClientMessageSchema } from '../../src/gen/static/relay/v1/relay_pb.ts'
import { WireError } from '../../src/wire/wire-error.ts'
import { kind } from '../kinds.ts'

const MAX = 4_194_304

const refused: readonly [about: string, fault: string, ...bytes: number[]][] = [
  ['no member of the oneof', 'oneof', 0x08, 0x01],
  ['two members of the oneof', 'oneof', 0x42, 0x00, 0x4a, 0x00],
  ['one member twice', 'oneof', 0x42, 0x00, 0x42, 0x00],
  ['a group', 'protobuf', 0x42, 0x00, 0x9b, 0x06, 0x9c, 0x06],
  ['the end of a group', 'protobuf', 0x42, 0x00, 0x9c, 0x06],
  ['wire type 6', 'protobuf', 0x42, 0x00, 0x9e, 0x06],
  ['a number where a message stands', 'protobuf', 0x40, 0x00],
  ['bytes where a number stands', 'protobuf', 0x0a, 0x00, 0x42, 0x00],
  ['a field without its value', 'truncated', 0x42],
  ['a length beyond the end', 'truncated', 0x42, 0x05, 0x08, 0x01],
  ['a length further beyond the end', 'truncated', 0x42, 0x06, 0x08, 0x01],
  ['a field beyond its message', 'truncated', 0x42, 0x01, 0x08, 0x01],
  ['a varint without an end', 'protobuf', 0x42, 0x00, 0x08, ...Array.from({ length: 11 }, () => 0xff)],
  ['invalid UTF-8', 'protobuf', 0x5a, 0x03, 0x0a, 0x01, 0xff],
  ['field number 0', 'protobuf', 0x42, 0x00, 0x00, 0x00],
]

for (const [about, fault, ...bytes] of refused) {
  void test(`protobuf: ${about} is refused`, () => {
    assert.throws(
      () => decodeEnvelope('protobuf', ClientMessageSchema, Uint8Array.from(bytes), MAX),
      (error) => error instanceof WireError && error.fault === fault,
    )
  })
}

void test('protobuf: items beyond the limit are refused before they are allocated', () => {
  const tooMany = (error: unknown): boolean => error instanceof WireError && error.fault === 'too-many-items'
  // AckRequest { positions: [{}, {}, …] }
  const lists = new Uint8Array(MAX)
  for (let at = 0; at < MAX; at += 2) lists[at] = 0x0a
  assert.throws(() => decodeEnvelope('protobuf', AckRequestSchema, lists, MAX), tooMany)
  // All { uint32s: a packed list }
  const packed = new Uint8Array(100_000)
  packed.set([0x5a, 0x9c, 0x8d, 0x06])
  assert.throws(() => decodeEnvelope('protobuf', kind('All'), packed, MAX), tooMany)
})

void test('protobuf: a message longer than the caller allows is not parsed', () => {
  const tooLarge = (error: unknown): boolean => error instanceof WireError && error.fault === 'too-large'
  assert.throws(() => decodeEnvelope('protobuf', AckRequestSchema, Uint8Array.of(0x0a, 0), 1), tooLarge)
})
