import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PLANS } from '@static/protocol'
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

test('every plan keeps a day of one small message a second in a channel, and more than one such channel', () => {
  // A sender alone has three quarters of the room, and the smallest message counts for 1,914 and 200 bytes.
  const day = (86_400 * (1914 + 200) * 4) / 3
  for (const plan of PLANS) {
    const channel = limitOf(DEFAULT_SETTINGS.channelBytes, plan, 'live') ?? Infinity
    const account = limitOf(DEFAULT_SETTINGS.accountBytes, plan, 'live') ?? Infinity
    assert.ok(channel >= day, plan)
    assert.ok(account >= 4 * channel, plan)
  }
  assert.equal(limitOf(settingsFrom({ accountBytes: { free: null } }).accountBytes, 'free', 'live'), null)
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
