import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import * as fc from 'fast-check'
import {
  type ChainEntry,
  chainNext,
  chainStart,
  commitBody,
  declarationBytes,
  leaveBody,
  leaveBytes,
} from '../../src/index.ts'
import { type Field, lengthPrefixed } from '../../src/signed/layout.ts'
import { check } from '../seed.ts'

const sha256 = (bytes: Uint8Array): Uint8Array => new Uint8Array(createHash('sha256').update(bytes).digest())
const filled = (byte: number, length = 32): Uint8Array => new Uint8Array(length).fill(byte)
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const distinct = (all: readonly Uint8Array[]): void => assert.equal(new Set(all.map(hex)).size, all.length)

const channelId = filled(7, 16)
const notice = { publicKey: filled(1), slot: 3n, leafKeys: [filled(5)], signature: filled(2, 64) }
const place = { channelId, slot: 3n, messageId: filled(8, 16), commitHash: filled(9) }
const declaration = { adds: [filled(1)], removes: [filled(2)], leaveNotices: [notice], vouches: [filled(1)] }

void test('the same bytes in different fields are signed as different bytes', (t) => {
  const places = fc.nat({ max: 6 })
  const property = fc.property(fc.uint8Array({ minLength: 6, maxLength: 6 }), places, places, (bytes, a, b) => {
    const cut = (at: number): Field[] => [bytes.subarray(0, at), bytes.subarray(at)]
    const nested = (at: number): Field[] => [[bytes.subarray(0, at)], [bytes.subarray(at)]]
    for (const form of [cut, nested]) {
      assert.equal(hex(lengthPrefixed(form(a))) === hex(lengthPrefixed(form(b))), a === b)
    }
  })
  check(t, 200, property)
  const [x, y] = [filled(1), filled(2)]
  distinct([[x, y], [[x, y]], [[x], [y]], [[x, y], []], [[], [x, y]], [x, y, []]].map(lengthPrefixed))
})

void test('a leave is bound to channel, slot and leaf', () => {
  const spaces = '20'.repeat(64)
  const context = hex(Buffer.from('static-relay/1 leave'))
  assert.equal(
    hex(leaveBytes(channelId, notice)),
    `${spaces}${context}0000000010${'07'.repeat(16)}0000000800000000000000030000002400000020${'05'.repeat(32)}`,
  )
  distinct([
    leaveBytes(channelId, notice),
    leaveBytes(channelId, { ...notice, slot: 4n }),
    leaveBytes(channelId, { ...notice, leafKeys: [filled(6)] }),
    leaveBytes(channelId, { ...notice, leafKeys: [filled(5), filled(6)] }),
    leaveBytes(filled(8, 16), notice),
  ])
})

void test('a declaration is bound to its commit and to everything it declares', () => {
  distinct([
    declarationBytes(place, declaration),
    declarationBytes({ ...place, channelId: filled(1, 16) }, declaration),
    declarationBytes({ ...place, slot: 4n }, declaration),
    declarationBytes({ ...place, messageId: filled(1, 16) }, declaration),
    declarationBytes({ ...place, commitHash: filled(1) }, declaration),
    declarationBytes(place, { ...declaration, adds: [] }),
    declarationBytes(place, { ...declaration, removes: [] }),
    declarationBytes(place, { ...declaration, leaveNotices: [] }),
    declarationBytes(place, { ...declaration, vouches: [] }),
    declarationBytes(place, { ...declaration, adds: declaration.removes, removes: declaration.adds }),
    declarationBytes(place, { ...declaration, adds: [filled(1), filled(2)], removes: [] }),
    declarationBytes(place, { ...declaration, leaveNotices: [{ ...notice, slot: 4n }] }),
  ])
})

void test('the bodies of entries contain everything members judge by', () => {
  const signed = { ...declaration, signature: filled(5, 64) }
  distinct([
    commitBody(filled(1), signed),
    commitBody(filled(2), signed),
    commitBody(filled(1), { ...signed, adds: [] }),
    commitBody(filled(1), { ...signed, vouches: [] }),
    commitBody(filled(1), { ...signed, signature: filled(6, 64) }),
    leaveBody(notice),
    leaveBody({ ...notice, signature: filled(3, 64) }),
    leaveBody({ ...notice, leafKeys: [filled(6)] }),
  ])
})

void test('the hash chain is specified byte for byte and depends on every field', () => {
  const entry: ChainEntry = { kind: 'message', sender: filled(1), messageId: filled(2, 16), bodyHash: filled(3) }
  const start = chainStart(sha256, channelId)
  const field = (part: string): string => `${(part.length / 2).toString(16).padStart(8, '0')}${part}`
  const name = hex(Buffer.from('static log 1'))
  assert.deepEqual(start, sha256(Buffer.from(field(name) + field('07'.repeat(16)), 'hex')))
  const parts = [name, hex(start), hex(Buffer.from('message')), '01'.repeat(32), '02'.repeat(16), '03'.repeat(32)]
  assert.deepEqual(chainNext(sha256, start, entry), sha256(Buffer.from(parts.map(field).join(''), 'hex')))
  distinct([
    chainNext(sha256, start, entry),
    chainNext(sha256, filled(0), entry),
    chainNext(sha256, start, { ...entry, kind: 'commit' }),
    chainNext(sha256, start, { ...entry, sender: filled(9) }),
    chainNext(sha256, start, { ...entry, messageId: new Uint8Array() }),
    chainNext(sha256, start, { ...entry, bodyHash: filled(9) }),
  ])
})
