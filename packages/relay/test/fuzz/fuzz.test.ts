/** Fuzzes what the relay reads beyond the wire forms: KeyPackages, and what balancers announce. */
import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import { test } from 'node:test'
import { readProxyHeader } from '@static/node/proxy-protocol'
import { fuzz } from '@static/testkit/fuzz'
import { proxyHeader, rawProxyHeader } from '@static/testkit/proxy-header'
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

test('headers of balancers: any bytes are a header with an address, the beginning of one, or none', async (t) => {
  await fuzz(t, {
    name: 'proxy-headers',
    seeds: [
      proxyHeader('192.0.2.7', 9),
      rawProxyHeader(1, 0x21, Buffer.alloc(36, 1)),
      rawProxyHeader(0, 0, Buffer.alloc(0)),
    ],
    decode: (bytes) => {
      const header = readProxyHeader(bytes)
      if (header.state === 'partial') assert.ok(bytes.length < 2048)
      if (header.state === 'whole') {
        assert.ok(header.length <= bytes.length)
        assert.ok(header.address === undefined || isIP(header.address) !== 0)
      }
    },
  })
})
