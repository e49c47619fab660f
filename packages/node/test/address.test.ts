import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plainAddress, subjectOf } from '../src/address.ts'

test('an IPv6 client counts as its /64 network', () => {
  for (const [address, subject] of [
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1', 'fe80:0:0:0::/64'],
    ['::ffff:c000:0207', '192.0.2.7'],
    ['0:0:0:0:0:ffff:192.0.2.7', '192.0.2.7'],
    ['192.0.2.7:4711', '192.0.2.7'],
    ['[2001:db8:1:2::9]:4711', '2001:db8:1:2::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['nonsense:x', 'unknown'],
  ] as const) {
    assert.equal(subjectOf(address), subject)
  }
})

test('addresses have one normal form', () => {
  assert.equal(plainAddress('::ffff:192.0.2.7'), '192.0.2.7')
  assert.equal(plainAddress('fe80::1%eth0'), 'fe80::1')
  assert.equal(plainAddress('192.0.2.7'), '192.0.2.7')
  assert.equal(plainAddress(undefined), '')
})
