import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type DescMessage, fromBinary, toBinary } from '@bufbuild/protobuf'
import * as fc from 'fast-check'
import { convertEnvelope, decodeEnvelope, encodeEnvelope, peekEnvelope } from '../../src/wire/envelope.ts'
import { AckRequestSchema, ClientMessageSchema, ServerMessageSchema } from '../../src/gen/static/relay/v1/relay_pb.ts'
import { WireError } from '../../src/wire/wire-error.ts'
import { messages } from '../arbitrary.ts'
import { kind } from '../kinds.ts'
import { check } from '../seed.ts'

const MAX = 4_194_304
const types: DescMessage[] = [ClientMessageSchema, ServerMessageSchema, AckRequestSchema, kind('All')]

void test('Envelope is the same message in both wire forms', (t) => {
  for (const type of types) {
    const property = fc.property(messages(type), (message) => {
      for (const form of ['protobuf', 'cbor'] as const) {
        assert.deepEqual(decodeEnvelope(form, type, encodeEnvelope(form, type, message), MAX), message)
      }
    })
    check(t, 500, property)
  }
})

void test('the subject of a message is known without decoding it', (t) => {
  for (const type of [ClientMessageSchema, ServerMessageSchema]) {
    const property = fc.property(messages<typeof type>(type), (message) => {
      for (const form of ['protobuf', 'cbor'] as const) {
        assert.equal(peekEnvelope(form, type, encodeEnvelope(form, type, message)), message.body.case)
      }
    })
    check(t, 100, property)
  }
  // ClientMessage { request_id: 1, ack: malformed }
  assert.equal(peekEnvelope('cbor', ClientMessageSchema, Uint8Array.of(0xa2, 1, 1, 4, 0xff)), 'ack')
  assert.equal(peekEnvelope('protobuf', ClientMessageSchema, Uint8Array.of(8, 1, 0x22, 0xff)), 'ack')
  const broken = { protobuf: [[], [8], [8, 1]], cbor: [[], [0xa0], [0xa1, 1, 1], [0xa1, 0x18, 99, 1]] } as const
  for (const form of ['protobuf', 'cbor'] as const) {
    for (const bytes of broken[form]) {
      assert.throws(() => peekEnvelope(form, ClientMessageSchema, Uint8Array.from(bytes)), WireError)
    }
  }
})

void test('Protobuf is encoded as the library encodes it', (t) => {
  for (const type of types) {
    const property = fc.property(messages(type), (message) => {
      assert.deepEqual(encodeEnvelope('protobuf', type, message), toBinary(type, message))
    })
    check(t, 500, property)
  }
})

void test('Protobuf of any length is encoded as the library encodes it', () => {
  const type = ServerMessageSchema
  for (const length of [0, 1, 60, 100, 127, 128, 4000, 4096, 16_300, 16_384, 70_000, 2_097_152]) {
    const ciphertext = new Uint8Array(length).fill(7)
    const message = create(type, { body: { case: 'deliverMessage', value: { ciphertext, index: 2n ** 63n } } })
    assert.ok(Buffer.from(toBinary(type, message)).equals(encodeEnvelope('protobuf', type, message)), `${length}`)
  }
})

void test('Envelope passes through a proxy and back unchanged', (t) => {
  for (const type of types) {
    const property = fc.property(messages(type), (message) => {
      // Order of map entries is free in protobuf, so the way back is compared as messages there.
      const protobuf = toBinary(type, message)
      const cbor = convertEnvelope('protobuf', 'cbor', type, protobuf, MAX)
      const back = convertEnvelope('cbor', 'protobuf', type, cbor, MAX)
      assert.deepEqual(fromBinary(type, back), message)
      assert.deepEqual(convertEnvelope('protobuf', 'cbor', type, back, MAX), cbor)
    })
    check(t, 500, property)
  }
})

void test('Envelope loses in a proxy the fields that the schema does not have', () => {
  const known = toBinary(
    ClientMessageSchema,
    create(ClientMessageSchema, { body: { case: 'getChallenge', value: {} } }),
  )
  const more = Uint8Array.of(...known, 0x98, 0x06, 0x01)
  assert.deepEqual(
    convertEnvelope('protobuf', 'cbor', ClientMessageSchema, more, MAX),
    convertEnvelope('protobuf', 'cbor', ClientMessageSchema, known, MAX),
  )
  assert.deepEqual(
    decodeEnvelope('protobuf', ClientMessageSchema, more, MAX),
    decodeEnvelope('protobuf', ClientMessageSchema, known, MAX),
  )
  assert.deepEqual(encodeEnvelope('protobuf', ClientMessageSchema, fromBinary(ClientMessageSchema, more)), known)
})
