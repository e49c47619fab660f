import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromHex, toHex } from '@static/protocol'
import { wordlist } from '@scure/bip39/wordlists/english.js'
import { decodeFrame, encodeFrame, type FrameKind } from '../../src/channel/sending/message-frame.ts'
import {
  decodeAnswer,
  decodeCancel,
  decodeMore,
  decodeRefused,
  decodeRequest,
  encodeAnswer,
  encodeAnswerEnd,
  encodeCancel,
  encodeMore,
  encodeRefused,
  encodeRequest,
} from '../../src/channel/asking/ask-frame.ts'
import { encodePack } from '../../src/channel/sending/pack.ts'
import { BUCKETS, ciphertextBytesOf } from '../../src/mls/padding.ts'
import { verificationWords } from '../../src/public/verification.ts'
import { readVectors } from './own.ts'

test('vectors: frames', () => {
  interface Vector {
    readonly about: string
    readonly kind: FrameKind
    readonly counter: number
    readonly payload: string
    readonly message_id: string
    readonly previous: string
    readonly seen_index: number
    readonly seen_hash: string
    readonly bytes: string
  }
  for (const vector of readVectors('frame.json') as Vector[]) {
    const frame = {
      kind: vector.kind,
      messageId: fromHex(vector.message_id),
      counter: vector.counter,
      previous: fromHex(vector.previous),
      seen: { index: vector.seen_index, hash: fromHex(vector.seen_hash) },
      payload: fromHex(vector.payload),
    }
    assert.equal(toHex(encodeFrame(frame)), vector.bytes, vector.about)
    assert.deepEqual(decodeFrame(fromHex(vector.bytes)), { version: 1, ...frame }, vector.about)
  }
})

test('every kind of frame has a vector', () => {
  const kinds = new Set((readVectors('frame.json') as { kind: FrameKind }[]).map(({ kind }) => kind))
  const vectors = readVectors('frame.json') as { kind: FrameKind; bytes: string }[]
  const described = (['file', 'approval', 'decision'] as const).map((of) =>
    fromHex(vectors.find(({ kind }) => kind === of)?.bytes ?? ''),
  )
  const frame = encodeFrame({
    kind: 'heartbeat',
    messageId: new Uint8Array(16),
    counter: 1,
    previous: new Uint8Array(32),
    seen: { index: 0, hash: new Uint8Array(32) },
    payload: encodePack([new Uint8Array(), new Uint8Array()]),
  })
  const known = Array.from({ length: 256 }, (_, kind) =>
    [frame, ...described].map((bytes) => decodeFrame(Uint8Array.from(bytes).with(1, kind))?.kind),
  ).flat()
  assert.deepEqual(new Set(known.filter((kind) => kind !== undefined)), kinds)
})

test('vectors: the length of a ciphertext', () => {
  interface Bucket {
    readonly cells: number
    readonly plaintext_bytes: readonly number[]
    readonly ciphertext_bytes: number
  }
  const { padding } = readVectors('group.json') as { padding: readonly Bucket[] }
  assert.deepEqual(
    BUCKETS,
    padding.map(({ cells, ciphertext_bytes }) => ({ cells, ciphertextBytes: ciphertext_bytes })),
  )
  for (const { plaintext_bytes, ciphertext_bytes } of padding)
    for (const bytes of plaintext_bytes) assert.equal(ciphertextBytesOf(bytes), ciphertext_bytes, String(bytes))
})

test('vectors: verification words', () => {
  interface Vector {
    readonly epoch_authenticator: string
    readonly index: number
    readonly hash: string
    readonly numbers: readonly number[]
    readonly words: string
  }
  for (const { epoch_authenticator, index, hash, numbers, words } of readVectors('verify.json') as Vector[]) {
    assert.equal(numbers.map((number) => wordlist[number]).join(' '), words)
    assert.equal(verificationWords(fromHex(epoch_authenticator), { index, hash: fromHex(hash), slot: 0 }), words)
  }
})

test('vectors: requests and answers', () => {
  interface Vector {
    readonly about: string
    readonly kind: FrameKind
    readonly payload: string
  }
  const vectors = readVectors('frame.json') as Vector[]
  const bytesOf = (about: string): Uint8Array => {
    const vector = vectors.find((vector) => vector.about === about)
    assert.ok(vector, about)
    return fromHex(vector.payload)
  }
  const id = (first: number): Uint8Array =>
    Uint8Array.from({ length: 16 }, (_, at) => (at === 15 ? (first + at) & 0xf0 : first + at))
  const to = toHex(Uint8Array.from({ length: 32 }, (_, at) => 0x80 + at))
  const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

  const request = { to, lifetimeMs: 60_000, payload: utf8('status?') }
  const toOne = bytesOf('a request to one member, which waits a minute')
  assert.deepEqual(decodeRequest(toOne), request)
  assert.equal(toHex(encodeRequest(request)), toHex(toOne))
  assert.deepEqual(decodeRequest(bytesOf('a request to all')), { to: undefined, lifetimeMs: 1, payload: utf8('') })

  const first = { requestId: id(6), number: 0, content: { payload: utf8('wait') } }
  assert.deepEqual(decodeAnswer('answer', bytesOf('a first answer')), first)
  assert.equal(toHex(encodeAnswer(id(6), 0, utf8('wait'))), toHex(bytesOf('a first answer')))
  const ends = {
    'the last answer, with the end': { requestId: id(6), number: 1, content: { payload: utf8('fine') } },
    'an end and nothing else': { requestId: id(6), number: 2, content: undefined },
    'an error': { requestId: id(7), number: 0, content: { error: { code: 'not_found', message: 'No such order.' } } },
  }
  for (const [about, end] of Object.entries(ends)) {
    assert.deepEqual(decodeAnswer('answer_end', bytesOf(about)), end, about)
    assert.equal(toHex(encodeAnswerEnd(end)), toHex(bytesOf(about)), about)
  }
  assert.equal(toHex(encodeCancel(id(7))), toHex(bytesOf('a cancelled request')))
  assert.deepEqual(decodeMore(bytesOf('three answers are read')), { requestId: id(6), read: 3 })
  assert.equal(toHex(encodeMore(id(6), 3)), toHex(bytesOf('three answers are read')))
  assert.deepEqual(decodeRefused(bytesOf('two requests are refused')), [id(6), id(7)])
  assert.equal(toHex(encodeRefused([id(6), id(7)])), toHex(bytesOf('two requests are refused')))
})

test('truncated or out-of-range bytes are no request and no answer', () => {
  const request = encodeRequest({ to: undefined, lifetimeMs: 1, payload: new Uint8Array() })
  assert.ok(decodeRequest(request))
  assert.equal(decodeRequest(request.subarray(1)), undefined)
  const lifetimes = [0n, 604_800_001n, 2n ** 64n - 1n]
  for (const lifetime of lifetimes) {
    const bytes = Buffer.from(request)
    bytes.writeBigUInt64BE(lifetime, 32)
    assert.equal(decodeRequest(bytes), undefined, String(lifetime))
  }
  const head = new Uint8Array(20)
  const withRest = (...rest: number[]): Uint8Array => Buffer.concat([head, Uint8Array.from(rest)])
  assert.equal(decodeAnswer('answer', head.subarray(1)), undefined)
  // No status, an unknown one, an end with more, an error without a code, with one that is cut short or has odd letters.
  for (const rest of [[], [3], [0, 1], [2], [2, 0], [2, 5, 0x61], [2, 1, 0x41], [2, 65]]) {
    assert.equal(decodeAnswer('answer_end', withRest(...rest)), undefined, rest.join())
  }
  assert.equal(decodeCancel(head), undefined)
  assert.equal(decodeMore(withRest(0)), undefined)
})
