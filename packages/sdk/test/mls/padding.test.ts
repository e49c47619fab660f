import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { CELL_BYTES, cutEnvelope, MAX_CIPHERTEXT_BYTES, MAX_PAYLOAD_BYTES } from '@static/protocol'
import { encodeEnvelope } from '@static/protocol/envelope'
import { ClientMessageSchema, ServerMessageSchema } from '@static/protocol/relay'
import { BUCKETS } from '../../src/mls/padding.ts'
import { type Agent, channelOf } from './support.ts'

/** What the SDK may put into a message beside the payload. */
const SDK_BYTES = 512
const LARGEST = (1n << 64n) - 1n
let sender: Agent
before(async () => {
  sender = (await channelOf('owner', 'ann')).agents[0]!
})

function cells(ciphertext: Uint8Array, number: bigint): number[] {
  const [channelId, messageId, control] = [randomBytes(16), randomBytes(16), number > 1n]
  const request = create(ClientMessageSchema, {
    requestId: number,
    body: {
      case: 'sendMessage',
      value: { channelId, slot: number, messageId, counter: number, control, ciphertext },
    },
  })
  const push = create(ServerMessageSchema, {
    body: {
      case: 'deliverMessage',
      value: {
        channelId,
        index: number,
        slot: number,
        sender: randomBytes(32),
        messageId,
        counter: number,
        control,
        ciphertext,
        acceptedAtMs: number,
      },
    },
  })
  return (['cbor', 'protobuf'] as const).flatMap((form) => [
    cutEnvelope(encodeEnvelope(form, ClientMessageSchema, request)).length / CELL_BYTES,
    cutEnvelope(encodeEnvelope(form, ServerMessageSchema, push)).length / CELL_BYTES,
  ])
}

test('every payload falls into a bucket, whose envelopes fill the same number of cells in every form', () => {
  const payloads = [1024, 4096, 16_384, 65_536, MAX_PAYLOAD_BYTES]
  assert.equal(payloads.length, BUCKETS.length)
  for (const [at, { cells: count, ciphertextBytes }] of BUCKETS.entries()) {
    const largest = payloads[at]!
    const smallest = at === 0 ? 0 : payloads[at - 1]! + 800
    for (const size of [smallest, largest, largest + SDK_BYTES]) {
      const ciphertext = sender.send(new Uint8Array(size))
      assert.equal(ciphertext.length, ciphertextBytes, `${size} bytes`)
      assert.ok(ciphertext.length <= MAX_CIPHERTEXT_BYTES)
      for (const number of [1n, BigInt(Date.now()), LARGEST])
        assert.deepEqual(cells(ciphertext, number), [count, count, count, count])
    }
  }
})

test('the sizes of the table', () => {
  const sizes = BUCKETS.map(({ ciphertextBytes }) => ciphertextBytes)
  assert.deepEqual(sizes, [1914, 4977, 17_229, 66_237, 263_290])
  for (const [at, plaintext] of [1768, 4831, 17_079, 66_087, 263_140].entries()) {
    assert.equal(sender.send(new Uint8Array(plaintext)).length, sizes[at])
    if (at < 4) assert.equal(sender.send(new Uint8Array(plaintext + 1)).length, sizes[at + 1])
  }
  assert.throws(() => sender.send(new Uint8Array(263_141)), { code: 'too_large' })
})

test('authenticated data takes space from the plaintext, never from the bucket', () => {
  for (const bytes of [1, 63, 64, 255, 500]) {
    const ciphertext = sender.send(new Uint8Array(1024), randomBytes(bytes))
    assert.equal(ciphertext.length, BUCKETS[0]?.ciphertextBytes)
  }
})
