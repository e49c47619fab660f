import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fingerprintOf, parseAgentId } from '../../src/public/fingerprint.ts'
import { verificationWords } from '../../src/public/verification.ts'
import { SEED } from '@static/testkit/random'

const bytes = fc.uint8Array({ minLength: 32, maxLength: 32 })

test('twelve words, the same for the same group, others when anything differs', (t) => {
  t.diagnostic(`seed ${SEED}`)
  const place = { index: 7, hash: new Uint8Array(32).fill(2), slot: 3 }
  const secret = new Uint8Array(32).fill(1)
  const words = verificationWords(secret, place)
  assert.match(words, /^([a-z]{3,8} ){11}[a-z]{3,8}$/)
  assert.equal(verificationWords(Uint8Array.from(secret), { ...place }), words)
  fc.assert(
    fc.property(bytes, fc.maxSafeNat(), bytes, (other, index, hash) => {
      assert.notEqual(verificationWords(other, place), words)
      if (index !== place.index) assert.notEqual(verificationWords(secret, { ...place, index }), words)
      assert.notEqual(verificationWords(secret, { ...place, hash }), words)
    }),
    { seed: SEED },
  )
  // One bit is enough.
  for (let bit = 0; bit < 256; bit++) {
    const flip = (of: Uint8Array): Uint8Array => of.with(bit >> 3, (of[bit >> 3] ?? 0) ^ (1 << (bit & 7)))
    assert.notEqual(verificationWords(flip(secret), place), words)
    assert.notEqual(verificationWords(secret, { ...place, hash: flip(place.hash) }), words)
  }
})

test('a fingerprint is the agent id in groups of four, and is parsed in any notation', () => {
  const id = '0123456789abcdef'.repeat(4)
  const fingerprint = fingerprintOf(id)
  assert.equal(fingerprint, Array.from({ length: 4 }, () => '0123 4567 89ab cdef').join(' '))
  for (const text of [
    id,
    fingerprint,
    fingerprint.toUpperCase(),
    ` ${fingerprint}\n`,
    fingerprint.replaceAll(' ', ':'),
  ]) {
    assert.equal(parseAgentId(text), id)
  }
  for (const text of ['', id.slice(1), `${id}0`, id.replace('0', 'g'), id.replace('0', '-'), 5, undefined]) {
    assert.throws(() => parseAgentId(text as string), { code: 'invalid_request' })
  }
})
