/** Fuzzes the decoders of the shared language. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fuzz } from '@static/testkit/fuzz'
import { SEED } from '@static/testkit/random'
import * as fc from 'fast-check'
import { decodeCbor, encodeCbor } from '../../src/cbor/cbor.ts'
import { ClientMessageSchema, ServerMessageSchema } from '../../src/gen/static/relay/v1/relay_pb.ts'
import { isChannelName, parseChannelName } from '../../src/name.ts'
import { decodeReceipt, encodeReceipt, RECEIPT_BYTES } from '../../src/signed/receipt.ts'
import { CELL_TYPES, CellJoiner, cutEnvelope, makeCell } from '../../src/traffic/cell.ts'
import { CellUnframer, frameCells } from '../../src/wire/grpc-frame.ts'
import { ENVELOPE_LIMITS } from '../../src/wire/limits.ts'
import { decodeProtobuf, encodeProtobuf } from '../../src/wire/protobuf.ts'
import { WireError } from '../../src/wire/wire-error.ts'
import { messages } from '../arbitrary.ts'

const MOST = ENVELOPE_LIMITS.member
const isWireError = (error: unknown): boolean => error instanceof WireError

for (const [name, schema] of [
  ['client', ClientMessageSchema],
  ['server', ServerMessageSchema],
] as const) {
  const samples = fc.sample(messages(schema), { seed: SEED, numRuns: 25 })

  test(`CBOR of the ${name}: no input crashes the decoder, and each message has one encoding`, async (t) => {
    await fuzz(t, {
      name: `cbor-${name}`,
      seeds: samples.map((message) => encodeCbor(schema, message)),
      decode: (bytes) => assert.deepEqual(encodeCbor(schema, decodeCbor(schema, bytes, MOST)), bytes),
      isRefusal: isWireError,
    })
  })

  test(`protobuf of the ${name}: no input crashes the decoder, and what it accepts has both forms`, async (t) => {
    await fuzz(t, {
      name: `protobuf-${name}`,
      seeds: samples.map((message) => encodeProtobuf(schema, message)),
      decode: (bytes) => {
        const message = decodeProtobuf(schema, bytes, MOST)
        const again = decodeCbor(schema, encodeCbor(schema, message), MOST)
        assert.deepEqual(encodeProtobuf(schema, again), encodeProtobuf(schema, message))
      },
      isRefusal: isWireError,
    })
  })
}

test('cells: no input crashes the joiner, however it is cut into chunks', async (t) => {
  const joined = (chunks: readonly Uint8Array[]): string => {
    const joiner = new CellJoiner(ENVELOPE_LIMITS.authenticated)
    const events: string[] = []
    try {
      for (const chunk of chunks)
        joiner.push(chunk, ({ type, payload }) => events.push(`${type} ${Buffer.from(payload).toString('hex')}`))
      joiner.end()
    } catch (error) {
      if (!(error instanceof WireError)) throw error
      events.push(error.fault)
    }
    return events.join('\n')
  }
  const envelope = Uint8Array.from({ length: 3000 }, (_, at) => at)
  await fuzz(t, {
    name: 'cells',
    seeds: [
      cutEnvelope(envelope),
      cutEnvelope(envelope.subarray(0, 10)),
      makeCell('ping', envelope.subarray(0, 8)),
      makeCell('cover'),
    ],
    words: Object.values(CELL_TYPES).map((type) => Uint8Array.of(type, 0x03, 0xfd)),
    decode: (bytes) => {
      const cut = (bytes[0] ?? 0) * 7 + 1
      assert.equal(joined([bytes.subarray(0, cut), bytes.subarray(cut)]), joined([bytes]))
    },
    isRefusal: isWireError,
  })
})

test('gRPC frames: no input crashes the unframer, however it is cut into chunks', async (t) => {
  const unframed = (chunks: readonly Uint8Array[]): string => {
    const unframer = new CellUnframer()
    const cells = Buffer.concat(chunks.map((chunk) => unframer.push(chunk)))
    return `${unframer.fault} ${unframer.isWhole} ${cells.toString('hex')}`
  }
  await fuzz(t, {
    name: 'grpc-frames',
    seeds: [frameCells(new Uint8Array(1024)), frameCells(new Uint8Array(2048).fill(7))],
    decode: (bytes) => {
      const cut = (bytes.at(-1) ?? 0) * 5
      assert.equal(unframed([bytes.subarray(0, cut), bytes.subarray(cut)]), unframed([bytes]))
    },
  })
})

test('receipts: no input crashes the decoder, and each has one encoding', async (t) => {
  const hash = new Uint8Array(32).fill(1)
  const signature = new Uint8Array(64).fill(2)
  await fuzz(t, {
    name: 'receipts',
    seeds: [
      encodeReceipt({ mode: 'settled', since: 1, index: 9, hash, aside: 2, settled: 8, signature }),
      encodeReceipt({ mode: 'off', since: 0, index: 0, hash, aside: 0, settled: 0, signature }),
    ],
    decode: (bytes) => {
      const receipt = decodeReceipt(bytes)
      if (!receipt) return
      assert.equal(bytes.length, RECEIPT_BYTES)
      assert.deepEqual(encodeReceipt(receipt), bytes)
    },
  })
})

test('channel names: no text crashes the parser, and only names are accepted', async (t) => {
  await fuzz(t, {
    name: 'channel-names',
    seeds: ['acme/support/routing', 'a/b', `${'a'.repeat(60)}/${'b-'.repeat(30)}c`].map((text) => Buffer.from(text)),
    words: ['/', '-', '..', '//'],
    decode: (bytes) => assert.ok(isChannelName(parseChannelName(Buffer.from(bytes).toString()))),
  })
})
