import assert from 'node:assert/strict'
import { isIPv4, isIPv6 } from 'node:net'
import { test } from 'node:test'
import { domainToASCII } from 'node:url'
import fc from 'fast-check'
import * as host from '../../src/platform/host.ts'

const RUNS = { numRuns: 20_000 }
/** Parts of addresses, right and nearly right. */
const part = fc.constantFrom(
  '0',
  '00',
  '1',
  '01',
  '7',
  '9',
  '10',
  '99',
  '127',
  '199',
  '249',
  '255',
  '256',
  '1000',
  'f',
  'F',
  'ffff',
  '0000',
  '12345',
  'g',
  '',
  ' ',
  '%',
  '::',
  '1.2.3.4',
  '1.2.3.256',
  '01.2.3.4',
  '-1',
  '0x1',
  '１',
  '\n',
)
const joined = (separator: string, most: number): fc.Arbitrary<string> =>
  fc.array(part, { maxLength: most }).map((parts) => parts.join(separator))
/** Letters of every kind, and the characters that end a host in a URL. */
const name = fc.string({
  unit: fc.oneof(
    fc.constantFrom(
      ...Array.from('abcxyzXYZ019-_.,:/?#@[]%\\ \t\0'),
      'ß',
      'ü',
      'İ',
      'ｘ',
      '。',
      '\u00ad',
      'xn--',
      '.',
      '例',
      '\ud800',
    ),
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  ),
  maxLength: 12,
})

test('IP addresses are those of node:net, except for zones', () => {
  fc.assert(
    fc.property(fc.oneof(joined('.', 5), joined(':', 9), joined('::', 3), name, fc.ipV4(), fc.ipV6()), (text) => {
      assert.equal(host.isIPv4(text), isIPv4(text), JSON.stringify(text))
      assert.equal(host.isIPv6(text), isIPv6(text) && !text.includes('%'), JSON.stringify(text))
    }),
    RUNS,
  )
})

test('domains in ASCII are those of node:url', () => {
  for (const text of ['', 'x', 'y', 'X', 'Y', 'ｘ', 'Bücher.example', 'xn--', 'xn--bcher-kva.example', 'a'.repeat(300)])
    assert.equal(host.asciiDomain(text), domainToASCII(text), text)
  fc.assert(
    fc.property(fc.oneof(name, fc.domain(), joined('.', 4)), (text) => {
      assert.equal(host.asciiDomain(text), domainToASCII(text), JSON.stringify(text))
    }),
    RUNS,
  )
})
