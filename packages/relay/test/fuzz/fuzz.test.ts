/** Fuzzes what the relay reads beyond the wire forms: KeyPackages. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fuzz } from '@static/testkit/fuzz'
import { readKeyPackage } from '../../src/core/channels/key-package-reader.ts'

/** A vector of the TLS presentation language with a length of one byte. */
const vector = (...bytes: readonly number[]): number[] => [bytes.length, ...bytes]
const KEY = vector(...Array.from({ length: 32 }, () => 7))

test('KeyPackages: no input crashes the reader, and its lists are not longer than the input', async (t) => {
  const capabilities = [vector(0, 1), vector(0, 1), vector(0xf5, 0x7a), vector(), vector(0, 1)].flat()
  const lifetime = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]
  const leaf = [...KEY, ...KEY, 0, 1, ...vector(0x61), ...capabilities, 1, ...lifetime, ...vector(), ...vector(9)]
  const keyPackage = Uint8Array.from([0, 1, 0, 5, 0, 1, 0, 1, ...KEY, ...leaf, ...vector(), ...vector(9)])
  assert.ok(readKeyPackage(keyPackage))
  await fuzz(t, {
    name: 'relay-key-packages',
    seeds: [keyPackage],
    decode: (bytes) => {
      const facts = readKeyPackage(bytes)
      if (facts) assert.ok(facts.extensions.length * 2 <= bytes.length && facts.longestList * 2 <= bytes.length + 1)
    },
  })
})
