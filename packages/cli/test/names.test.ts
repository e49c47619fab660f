import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeConstraints, permits } from '../src/authority/constraints.ts'
import { addressBytes, addressText, parseHostName, parseHostNames } from '../src/authority/names.ts'
import { staticError } from './support.ts'

void test('names have one normal form', () => {
  const cases = {
    'Relay.Example.': 'relay.example',
    'bücher.example': 'xn--bcher-kva.example',
    localhost: 'localhost',
    '10.0.0.1': '10.0.0.1',
    '0:0:0:0:0:0:0:1': '::1',
    '2001:DB8::0:1': '2001:db8::1',
    '::ffff:1.2.3.4': '::ffff:102:304',
  }
  for (const [name, text] of Object.entries(cases)) assert.equal(parseHostName(name).text, text)
  assert.deepEqual(parseHostNames(['A.example', 'a.example', '::1', '0::1']), [
    { type: 'dns', text: 'a.example' },
    { type: 'ip', text: '::1' },
  ])
})

void test('anything that is not a host name is refused', () => {
  const refused = ['', '.', '*.example', 'a..b', '-a.example', 'a_b.example', '300.1.1.1', '127.1', '0x7f.1', 'a b']
  const more = ['fe80::1%eth0', 'https://a.example', 'a.example:8443', '10.0.0.0/8', 'a,DNS:b', `${'a'.repeat(64)}.b`]
  for (const name of [...refused, ...more, `${'a.'.repeat(127)}b`]) {
    assert.throws(() => parseHostName(name), staticError('invalid_request', /neither a DNS name/), name)
  }
})

void test('addresses round-trip through bytes', () => {
  for (const text of ['127.0.0.1', '::1', '::', '2001:db8::1', '2001:db8:1:2:3:4:5:6', '1::']) {
    assert.equal(addressText(addressBytes(text)), text)
  }
  assert.equal(addressBytes('2001:db8::1').toString('hex'), '20010db8000000000000000000000001')
})

void test('a permitted name covers itself and, for DNS, its subdomains', () => {
  const permitted = parseHostNames(['example.org', '10.0.0.1'])
  const passes = (name: string): boolean => permits(permitted, parseHostName(name))
  assert.deepEqual(['example.org', 'a.example.org', '10.0.0.1'].map(passes), [true, true, true])
  assert.deepEqual(['org', 'badexample.org', '10.0.0.2', '::1'].map(passes), [false, false, false, false])
})

void test('a name type without a permitted name is excluded as a whole', () => {
  const onlyDns = encodeConstraints(parseHostNames(['a.b'])).toString('hex')
  // [0] permitted: a.b; [1] excluded: 0.0.0.0/0 and ::/0.
  const excluded = `300a8708${'00'.repeat(8)}30228720${'00'.repeat(32)}`
  assert.equal(onlyDns, `303ba00730058203612e62a130${excluded}`)
  const onlyIp = encodeConstraints(parseHostNames(['1.2.3.4'])).toString('hex')
  assert.ok(onlyIp.endsWith('a10430028200'), onlyIp)
})
