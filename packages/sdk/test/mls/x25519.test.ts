import assert from 'node:assert/strict'
import { createPublicKey, diffieHellman, generateKeyPairSync, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { isEncryptionKey } from '../../src/mls/x25519.ts'

const { privateKey } = generateKeyPairSync('x25519')

/** Whether Diffie-Hellman with this key gives anything. */
function works(key: Uint8Array): boolean {
  const x = Buffer.from(key).toString('base64url')
  try {
    const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x }, format: 'jwk' })
    return diffieHellman({ privateKey, publicKey }).some((byte) => byte !== 0)
  } catch {
    return false
  }
}

test('a key is accepted if and only if it can be encrypted to', () => {
  const ends = ['00', '01', '02', 'eb', 'ec', 'ed', 'ee', 'ef', 'ff']
  const near = ends.flatMap((end) =>
    [0x00, 0x7f, 0x80, 0xff].map((last) => {
      const key = Buffer.alloc(32, last & 0x7f ? 0xff : 0x00)
      key[0] = Number.parseInt(end, 16)
      key[31] = last
      return key
    }),
  )
  const order8 = [
    'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
    '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
  ].map((hex) => Buffer.from(hex, 'hex'))
  const random = Array.from({ length: 50 }, () => randomBytes(32))
  for (const key of [...near, ...order8, ...random]) {
    const high = Buffer.from(key)
    high[31]! |= 0x80
    for (const form of [key, high]) assert.equal(isEncryptionKey(form), works(form), form.toString('hex'))
  }
  assert.equal([...near, ...order8].filter(isEncryptionKey).length < near.length, true)
  assert.equal(isEncryptionKey(randomBytes(31)), false)
})
