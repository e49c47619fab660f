import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DEFAULT_SETTINGS, limitOf, settingsFrom } from '../src/settings.ts'

test('without overrides the defaults apply', () => {
  assert.deepEqual(settingsFrom({}), DEFAULT_SETTINGS)
})

test('one number can be changed without naming the others', () => {
  const settings = settingsFrom({ rates: { signups: { limit: 7 } }, quota: { free: null } })
  assert.deepEqual(settings.rates.signups, { limit: 7, seconds: 3600 })
  assert.deepEqual(settings.rates.account, DEFAULT_SETTINGS.rates.account)
  assert.equal(limitOf(settings.quota, 'free', 'live'), null)
  assert.equal(limitOf(settings.quota, 'enterprise', 'test'), 1_000)
})

for (const [what, given, message] of [
  ['a list', [], /settings must be an object/],
  ['an unknown name', { rate: {} }, /Unknown setting rate\b/],
  ['an unknown name below', { rates: { signup: {} } }, /Unknown setting rates\.signup\b/],
  ['an inherited name', { constructor: 1 }, /Unknown setting constructor/],
  ['a text', { keysPerAccount: '5' }, /keysPerAccount must be a whole number/],
  ['a fraction', { lease: { chunk: 1.5 } }, /lease\.chunk must be/],
  ['nothing', { bodyBytes: 0 }, /bodyBytes must be/],
  ['null where it means nothing', { bodyBytes: null }, /bodyBytes must be/],
  ['a number for a group', { http: 3 }, /http must be an object/],
] as const) {
  test(`refused: ${what}`, () => {
    assert.throws(() => settingsFrom(given), { code: 'invalid_request', message })
  })
}
