import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { addressKey } from '@static/protocol'
import { isLoopbackAddress, plainAddress, subjectOf } from '../src/address.ts'

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

test('limits that know an address by its text, and those that know it from a socket, count the same', () => {
  const groups = fc.array(fc.constantFrom('0', '1', 'db8', 'ffff', '0A'), { minLength: 8, maxLength: 8 })
  const full = groups.map((all) => all.join(':'))
  const short = fc
    .tuple(groups, fc.nat(7), fc.nat(7))
    .map(([all, one, other]) => [all.slice(0, Math.min(one, other)), all.slice(Math.max(one, other) + 1)] as const)
    .map(([head, tail]) => `${head.join(':')}::${tail.join(':')}`)
  const forms = fc.oneof(
    fc.ipV4(),
    fc.ipV6(),
    full,
    short,
    fc.ipV4().map((address) => `::ffff:${address}`),
  )
  fc.assert(
    fc.property(forms, (address) => assert.equal(subjectOf(address), addressKey(address))),
    { seed: 20261118 },
  )
})

test('this machine has many addresses', () => {
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1']) assert.ok(isLoopbackAddress(address))
  for (const address of ['', '192.0.2.7', '::', '::ffff:192.0.2.7', 'fe80::1', 'x127.0.0.1']) {
    assert.ok(!isLoopbackAddress(address), address)
  }
})

test('addresses have one normal form', () => {
  assert.equal(plainAddress('::ffff:192.0.2.7'), '192.0.2.7')
  assert.equal(plainAddress('fe80::1%eth0'), 'fe80::1')
  assert.equal(plainAddress('192.0.2.7'), '192.0.2.7')
  assert.equal(plainAddress(undefined), '')
})
