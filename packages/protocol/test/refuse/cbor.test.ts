import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { decodeCbor, encodeCbor, MAX_ITEMS } from '../../src/cbor/cbor.ts'
import { planOf } from '../../src/cbor/plan.ts'
import { decodeEnvelope, type WireForm } from '../../src/wire/envelope.ts'
import { file_grpc_health_v1_health } from '../../src/gen/grpc/health/v1/health_pb.ts'
import {
  AckRequestSchema,
  ClientMessageSchema,
  file_static_relay_v1_relay,
  ServerMessageSchema,
} from '../../src/gen/static/relay/v1/relay_pb.ts'
import { encodeEnvelope } from '../../src/wire/envelope.ts'
import { WireError } from '../../src/wire/wire-error.ts'
import { messages } from '../arbitrary.ts'
import { kind } from '../kinds.ts'
import { randomNumbers, SEED } from '@static/testkit/random'

const MAX = 4_194_304
const fault = (expected: string) => (error: unknown) => error instanceof WireError && error.fault === expected

void test('every message of the schema is inside the CBOR profile', () => {
  const types = [...file_static_relay_v1_relay.messages, ...file_grpc_health_v1_health.messages]
  assert.ok(types.length > 60)
  for (const type of types) assert.doesNotThrow(() => planOf(type))
})

void test('types outside the profile are refused at planning time', () => {
  const cases = {
    Float: /a float/,
    Double: /a float/,
    HoldsFloat: /a float/,
    NumberKeys: /not strings/,
    Recursive: /recursive/,
    RecursiveList: /recursive/,
    Known: /google\.protobuf/,
    Deep9At1: /deeper than 8/,
  }
  for (const [name, message] of Object.entries(cases))
    assert.throws(() => planOf(kind(name)), { name: 'TypeError', message })
  assert.equal(planOf(kind('Deep8At1')).depth, 8)
})

void test('a message longer than the caller allows is not parsed', () => {
  const bytes = Uint8Array.of(0xa0)
  assert.throws(() => decodeCbor(AckRequestSchema, bytes, 0), fault('too-large'))
  assert.doesNotThrow(() => decodeCbor(AckRequestSchema, bytes, 1))
})

void test('items beyond the limit are refused before they are allocated', () => {
  // AckRequest { positions: [{}, {}, …] }
  const head = [0xa1, 0x01, 0x9a, 0x00, 0x3f, 0x00, 0x00]
  const bytes = new Uint8Array(head.length + 0x3f_0000).fill(0xa0)
  bytes.set(head)
  assert.throws(() => decodeCbor(AckRequestSchema, bytes, MAX), fault('too-many-items'))
  const few = encodeCbor(AckRequestSchema, decodeCbor(AckRequestSchema, Uint8Array.of(0xa1, 1, 0x81, 0xa0), MAX))
  assert.equal(few.length, 4)
  assert.ok(MAX_ITEMS < 0x3f_0000)
})

void test('nesting costs nothing, however deep it is', () => {
  for (const byte of [0x81, 0xa1, 0xc1, 0x9f, 0xbf, 0x00]) {
    for (const depth of [9, 1000, 100_000]) {
      const bytes = new Uint8Array(depth).fill(byte)
      assert.throws(() => decodeCbor(ClientMessageSchema, bytes, MAX), WireError)
    }
  }
})

void test('the keys of text maps are unique and in order', () => {
  // All { choice_zero: 0, text_map: { … } }
  const all = (...map: number[]): Uint8Array => Uint8Array.of(0xa2, 0x18, 31, 0, 0x19, 0x01, 0x90, ...map)
  const a = [0x61, 0x61]
  const b = [0x61, 0x62]
  const aa = [0x62, 0x61, 0x61]
  const empty = [0x60]
  const type = kind('All')
  assert.doesNotThrow(() => decodeCbor(type, all(0xa3, ...a, ...empty, ...b, ...empty, ...aa, ...empty), MAX))
  assert.throws(() => decodeCbor(type, all(0xa2, ...a, ...empty, ...a, ...empty), MAX), fault('duplicate-key'))
  assert.throws(() => decodeCbor(type, all(0xa2, ...b, ...empty, ...a, ...empty), MAX), fault('key-order'))
  assert.throws(() => decodeCbor(type, all(0xa2, ...aa, ...empty, ...b, ...empty), MAX), fault('key-order'))
  assert.throws(() => decodeCbor(type, all(0xa0), MAX), fault('explicit-default'))
  assert.throws(() => decodeCbor(type, all(0xa1, 0x01, ...empty), MAX), fault('type'))
})

void test('20,000 broken inputs all fail in the same way, and whatever passes is canonical', (t) => {
  t.diagnostic(`seed ${SEED}`)
  const random = randomNumbers(SEED)
  const below = (limit: number): number => Math.floor(random() * limit)
  const types = [ClientMessageSchema, ServerMessageSchema, AckRequestSchema, kind('All')]
  const forms: WireForm[] = ['cbor', 'protobuf']
  const counts = { refused: 0, taken: 0 }
  const started = process.memoryUsage().rss
  for (const type of types) {
    const samples = fc.sample(messages(type), { seed: SEED, numRuns: 50 })
    for (const form of forms) {
      const seeds = samples.map((message) => encodeEnvelope(form, type, message))
      for (let run = 0; run < 2500; run++) {
        const bytes = mutate(
          seeds[run % seeds.length] ?? new Uint8Array(),
          seeds[below(seeds.length)] ?? new Uint8Array(),
          below,
        )
        try {
          const message = decodeEnvelope(form, type, bytes, MAX)
          if (form === 'cbor') assert.deepEqual(encodeCbor(type, message), bytes)
          counts.taken++
        } catch (error) {
          if (!(error instanceof WireError)) throw error
          counts.refused++
        }
      }
    }
  }
  t.diagnostic(`${counts.refused} refused, ${counts.taken} taken`)
  assert.equal(counts.refused + counts.taken, 20_000)
  assert.ok(counts.refused > 5000 && counts.taken > 500)
  assert.ok(process.memoryUsage().rss - started < 256 * 1024 * 1024)
})

/** Breaks bytes in one to four places. */
function mutate(source: Uint8Array, other: Uint8Array, below: (limit: number) => number): Uint8Array {
  let bytes = [...source]
  for (let left = 1 + below(4); left > 0; left--) {
    const at = below(bytes.length + 1)
    switch (below(7)) {
      case 0:
        bytes[Math.min(at, bytes.length)] = below(256)
        break
      case 1:
        if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << below(8))
        break
      case 2:
        bytes.splice(at, 1 + below(4))
        break
      case 3:
        bytes.splice(at, 0, ...Array.from({ length: 1 + below(4) }, () => below(256)))
        break
      case 4:
        bytes = bytes.slice(0, at)
        break
      case 5:
        bytes.splice(at, 0, ...other.subarray(0, below(40)))
        break
      default:
        // A head that announces a lot.
        bytes.splice(at, 1, (below(8) << 5) | 27, below(2) * 255, 255, 255, 255, below(256), 0, 0, below(256))
    }
  }
  return Uint8Array.from(bytes)
}
