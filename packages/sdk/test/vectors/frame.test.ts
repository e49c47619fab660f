import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fromHex, toHex } from '@static/protocol'
import { wordlist } from '@scure/bip39/wordlists/english.js'
import { decodeFrame, encodeFrame, type FrameKind } from '../../src/core/channel/messages/message-frame.ts'
import { verificationWords } from '../../src/verification.ts'
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
