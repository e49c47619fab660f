import assert from 'node:assert/strict'
import { test } from 'node:test'
import { networkLimit, networkOf } from '../src/address.ts'

test('only the /64 of an IPv6 client is part of a /48', () => {
  assert.equal(networkOf('2001:db8:1:2::/64'), '2001:db8:1::/48')
  assert.equal(networkOf('2001:db8:1:ffff::/64'), '2001:db8:1::/48')
  assert.equal(networkOf('0:0:0:0::/64'), '0:0:0::/48')
  const others = ['192.0.2.7', 'unknown', '', 'a@b:c:d:e::/64', '2001:db8:1::/48', 'sk_live 2001:db8:1:2::/64']
  for (const other of others) assert.equal(networkOf(other), undefined, other)
})

test('a /48 gets the limit of 16 addresses, but not all that there is', () => {
  assert.equal(networkLimit(5), 80)
  assert.equal(networkLimit(4096, 20_000), 15_000)
  assert.equal(networkLimit(10, 4), 10, 'never less than one address')
})
