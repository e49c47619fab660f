import assert from 'node:assert/strict'
import { test } from 'node:test'
import { reachableAddresses } from '../src/server/interfaces.ts'

test('only addresses that other machines can use, IPv4 first', () => {
  const entry = (address: string, internal = false) => {
    const family = address.includes(':') ? 'IPv6' : 'IPv4'
    return { address, netmask: '', mac: '', internal, cidr: null, family, scopeid: 0 } as never
  }
  assert.deepEqual(
    reachableAddresses({
      lo: [entry('127.0.0.1', true), entry('::1', true)],
      eth0: [entry('2001:db8::2'), entry('fe80::1'), entry('192.0.2.2')],
      wlan0: [entry('169.254.3.4'), entry('198.51.100.7')],
    }),
    ['192.0.2.2', '198.51.100.7', '2001:db8::2'],
  )
  const many = Array.from({ length: 300 }, (_, at) => entry(`10.0.0.${at}`))
  assert.equal(reachableAddresses({ docker: many }).length, 8)
})
