import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CELL_PAYLOAD_BYTES, maxCommitBytes, REVISION } from '../src/index.ts'
import { encodeEnvelope } from '../src/wire/envelope.ts'
import { create } from '@bufbuild/protobuf'
import {
  AckRequestSchema,
  ClientMessageSchema,
  Relay,
  ServerMessageSchema,
} from '../src/gen/static/relay/v1/relay_pb.ts'

void test('every request has a response with the same name and number', () => {
  for (const field of ClientMessageSchema.fields) {
    if (field.oneof === undefined) continue
    const answer = ServerMessageSchema.fields.find((each) => each.number === field.number)
    assert.equal(answer?.name, field.name)
    assert.equal(field.message?.name.replace(/Request$/, 'Response'), answer?.message?.name)
  }
})

void test('every request except the proxy’s own is also a unary call', () => {
  for (const field of ClientMessageSchema.fields) {
    if (field.oneof === undefined || field.name === 'proxy_hello') continue
    const method = Relay.methods.find((each) => each.input === field.message)
    assert.equal(method?.methodKind, 'unary', field.name)
    assert.equal(method?.output.name, `${method?.name}Response`)
  }
  assert.equal(Relay.typeName, 'static.relay.v1.Relay')
})

void test('one ack cell advances the cursors of at least 25 channels in either form', () => {
  const positions = Array.from({ length: 25 }, () => ({ channelId: new Uint8Array(16), index: 2n ** 63n }))
  for (const form of ['protobuf', 'cbor'] as const) {
    const bytes = encodeEnvelope(form, AckRequestSchema, create(AckRequestSchema, { positions }))
    assert.ok(bytes.length <= CELL_PAYLOAD_BYTES, `${form}: ${bytes.length}`)
  }
})

void test('limits match the contract', () => {
  assert.equal(REVISION, 2)
  assert.equal(maxCommitBytes(1), 20_480)
  assert.equal(maxCommitBytes(250), 1_040_384)
  assert.equal(maxCommitBytes(10_000), 4_194_304)
})
