import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { MODES } from '@static/protocol'
import { makeApiKey, parseApiKey } from '../../src/secrets/api-key.ts'

const SEED = 20270101

test('a new key parses to its prefix and mode', () => {
  for (const mode of ['live', 'test'] as const) {
    const key = makeApiKey(mode)
    assert.equal(key.length, 54)
    assert.deepEqual(parseApiKey(key), { prefix: key.slice(0, 16), mode })
  }
})

test('no two keys are alike, and every character of the alphabet occurs', () => {
  const keys = Array.from({ length: 500 }, () => makeApiKey('live'))
  assert.equal(new Set(keys.map((key) => key.slice(0, 16))).size, keys.length)
  assert.equal(new Set(keys.map((key) => key.slice(8, 48)).join('')).size, 62)
})

test(`no single changed character passes (seed ${SEED})`, () => {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_ é'
  const change = fc.record({
    at: fc.nat(53),
    to: fc.constantFrom(...alphabet.split('')),
    mode: fc.constantFrom(...MODES),
  })
  fc.assert(
    fc.property(change, ({ at, to, mode }) => {
      const key = makeApiKey(mode)
      const changed = key.slice(0, at) + to + key.slice(at + 1)
      return changed === key || parseApiKey(changed) === undefined
    }),
    { seed: SEED, numRuns: 5000 },
  )
})

test(`nothing else is a key (seed ${SEED})`, () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 80 }), (text) => parseApiKey(text) === undefined),
    { seed: SEED, numRuns: 2000 },
  )
  const key = makeApiKey('live')
  for (const wrong of [`${key} `, ` ${key}`, `${key}\n`, key.toUpperCase(), key.replace('live', 'test'), '']) {
    assert.equal(parseApiKey(wrong), undefined)
  }
})

test('vectors: API keys and their checksums', () => {
  interface Vector {
    readonly mode: string
    readonly key_prefix: string
    readonly key: string
  }
  const file = resolve(import.meta.dirname, '../../../../tests/vectors', 'api-key.json')
  for (const { mode, key_prefix, key } of JSON.parse(readFileSync(file, 'utf8')) as Vector[]) {
    assert.deepEqual(parseApiKey(key), { prefix: key_prefix, mode })
  }
})
