import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type DescMessage } from '@bufbuild/protobuf'
import * as cborg from 'cborg'
import * as fc from 'fast-check'
import { decodeCbor, encodeCbor } from '../../src/cbor/cbor.ts'
import {
  AckRequestSchema,
  ClientMessageSchema,
  file_static_relay_v1_relay,
  ServerMessageSchema,
} from '../../src/gen/static/relay/v1/relay_pb.ts'
import { WireError } from '../../src/wire/wire-error.ts'
import { messages } from '../arbitrary.ts'
import { kind } from '../kinds.ts'
import { toPlain } from '../plain.ts'
import { check } from '../seed.ts'

const MAX = 4_194_304
const all = kind('All')

/** Encodes, compares with the oracle, decodes, and compares with the message. */
function roundTrip(type: DescMessage): fc.IProperty<unknown> {
  return fc.property(messages(type), (message) => {
    const bytes = encodeCbor(type, message)
    assert.deepEqual(bytes, new Uint8Array(cborg.encode(toPlain(type, message))))
    assert.deepEqual(decodeCbor(type, bytes, MAX), message)
  })
}

void test('CBOR round-trips every message of the schema, byte for byte as cborg', (t) => {
  for (const type of file_static_relay_v1_relay.messages) check(t, 40, roundTrip(type))
  check(t, 500, roundTrip(ClientMessageSchema))
  check(t, 500, roundTrip(ServerMessageSchema))
})

void test('CBOR round-trips every kind of field, byte for byte as cborg', (t) => {
  check(t, 1000, roundTrip(all))
})

void test('CBOR passes through a strict cborg unchanged', (t) => {
  const property = fc.property(messages(ServerMessageSchema), (message) => {
    const bytes = encodeCbor(ServerMessageSchema, message)
    const options = { useMaps: true, strict: true, allowIndefinite: false, rejectDuplicateMapKeys: true }
    assert.deepEqual(new Uint8Array(cborg.encode(cborg.decode(bytes, options))), bytes)
  })
  check(t, 500, property)
})

void test('CBOR encodes integers around every change of length', () => {
  const edges = [0, 23, 24, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 53 + 2]
  for (const edge of [...edges.map(BigInt), 2n ** 63n, 2n ** 64n - 1n]) {
    const message = create(AckRequestSchema, { positions: [{ index: edge }] })
    const bytes = encodeCbor(AckRequestSchema, message)
    assert.deepEqual(bytes, new Uint8Array(cborg.encode(toPlain(AckRequestSchema, message))))
    assert.equal(decodeCbor(AckRequestSchema, bytes, MAX).positions[0]?.index, edge)
  }
})

void test('CBOR encodes messages longer than its buffer', () => {
  for (const length of [4000, 4096, 9000, 70_000, 1_000_000]) {
    const value = { channelId: new Uint8Array(16).fill(1), slot: 5n, ciphertext: new Uint8Array(length).fill(2) }
    const message = create(ClientMessageSchema, { requestId: 3n, body: { case: 'sendMessage', value } })
    const expected = new Uint8Array(cborg.encode(toPlain(ClientMessageSchema, message)))
    assert.ok(Buffer.from(encodeCbor(ClientMessageSchema, message)).equals(expected))
  }
})

void test('CBOR decodes byte strings as views of the input', () => {
  const bytes = encodeCbor(
    AckRequestSchema,
    create(AckRequestSchema, { positions: [{ channelId: new Uint8Array(16) }] }),
  )
  const id = decodeCbor(AckRequestSchema, bytes, MAX).positions[0]?.channelId
  assert.equal(id?.buffer, bytes.buffer)
})

void test('CBOR returns a new buffer for each message', () => {
  const message = create(AckRequestSchema, { positions: [{ index: 1n }] })
  const first = encodeCbor(AckRequestSchema, message)
  const copy = first.slice()
  encodeCbor(AckRequestSchema, create(AckRequestSchema, { positions: [{ index: 2n }] }))
  assert.deepEqual(first, copy)
})

void test('CBOR keeps a byte order mark and the key __proto__', () => {
  const message = create(all, { text: '\ufeffa', choice: { case: 'choiceZero', value: 0 } })
  Object.defineProperty((message as unknown as { textMap: object }).textMap, '__proto__', {
    value: 'x',
    enumerable: true,
  })
  assert.deepEqual(encodeCbor(all, decodeCbor(all, encodeCbor(all, message), MAX)), encodeCbor(all, message))
})

void test('CBOR still works after a message that could not be encoded', () => {
  const bad = create(AckRequestSchema, { positions: [{ index: -1n }] })
  assert.throws(() => encodeCbor(AckRequestSchema, bad), new WireError('range'))
  assert.deepEqual(encodeCbor(AckRequestSchema, create(AckRequestSchema)), Uint8Array.of(0xa0))
})

void test('CBOR refuses to encode values without an encoding', () => {
  const half = { text: '\ud800' }
  const choice = { choice: { case: 'choiceZero', value: 0 } }
  const refuse = (init: Record<string, unknown>, fault: string): void => {
    assert.throws(
      () => encodeCbor(all, create(all, init)),
      (error) => error instanceof WireError && error.fault === fault,
    )
  }
  refuse({ ...choice, ...half }, 'utf8')
  refuse({ ...choice, textMap: { '\ud800': '' } }, 'utf8')
  refuse({ ...choice, uint32: -1 }, 'range')
  refuse({ ...choice, uint32: 2 ** 32 }, 'range')
  refuse({ ...choice, uint32: 1.5 }, 'range')
  refuse({ ...choice, int32: 2 ** 31 }, 'range')
  refuse({ ...choice, uint64: 2n ** 64n }, 'range')
  refuse({ ...choice, sint64: -(2n ** 63n) - 1n }, 'range')
  refuse({}, 'oneof')
})
