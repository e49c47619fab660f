import assert from 'node:assert/strict'
import { createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { type CiphersuiteImpl, getCiphersuiteFromName, getCiphersuiteImpl } from 'ts-mls'
import { CryptoError } from 'ts-mls/mlsError.js'
import { SUITE } from '../../src/mls/aead.ts'
import { expand, extract, hmac } from '../../src/mls/hash.ts'
import { makeProvider } from '../../src/mls/ts-mls/provider.ts'
import { hex, text } from './support.ts'

const ours = makeProvider(SUITE)
/** The library's own, on Web Crypto. */
const theirs = await getCiphersuiteImpl(getCiphersuiteFromName(SUITE.name))
const [info, data, plaintext] = [text('info'), text('data'), randomBytes(100)]

for (const [name, sender, receiver] of [
  ['ours to theirs', ours, theirs],
  ['theirs to ours', theirs, ours],
] as const satisfies readonly (readonly [string, CiphersuiteImpl, CiphersuiteImpl])[]) {
  test(`HPKE, AEAD and signatures, ${name}`, async () => {
    const secret = randomBytes(32)
    const pairs = [await sender.hpke.deriveKeyPair(secret), await receiver.hpke.deriveKeyPair(secret)] as const
    const raw = await receiver.hpke.exportPublicKey(pairs[1].publicKey)
    assert.equal(hex(await sender.hpke.exportPublicKey(pairs[0].publicKey)), hex(raw))
    const publicKey = await sender.hpke.importPublicKey(raw)
    const privateRaw = await receiver.hpke.exportPrivateKey(pairs[1].privateKey)
    const privateKey = await receiver.hpke.importPrivateKey(privateRaw)
    const { enc, ct } = await sender.hpke.seal(publicKey, plaintext, info, data)
    assert.equal(hex(await receiver.hpke.open(privateKey, enc, ct, info, data)), hex(plaintext))
    const exported = await sender.hpke.exportSecret(publicKey, text('context'), 32, info)
    const imported = await receiver.hpke.importSecret(privateKey, text('context'), exported.enc, 32, info)
    assert.equal(hex(imported), hex(exported.secret))
    const [key, nonce] = [randomBytes(16), randomBytes(12)]
    const sealed = await sender.hpke.encryptAead(key, nonce, data, plaintext)
    assert.equal(hex(await receiver.hpke.decryptAead(key, nonce, data, sealed)), hex(plaintext))
    const signing = await sender.signature.keygen()
    const signature = await sender.signature.sign(signing.signKey, plaintext)
    assert.ok(await receiver.signature.verify(signing.publicKey, plaintext, signature))
  })
}

test("failures use the library's error class", async () => {
  const { privateKey, publicKey } = await ours.hpke.generateKeyPair()
  const { enc, ct } = await ours.hpke.seal(publicKey, plaintext, info)
  await assert.rejects(ours.hpke.open(privateKey, enc, ct, text('other')), CryptoError)
  await assert.rejects(ours.hpke.open(privateKey, new Uint8Array(32), ct, info), CryptoError)
  await assert.rejects(ours.hpke.open(privateKey, enc, ct.subarray(0, 5), info), CryptoError)
  await assert.rejects(ours.hpke.importPublicKey(new Uint8Array(31)), CryptoError)
  await assert.rejects(ours.hpke.importPrivateKey(new Uint8Array(33)), CryptoError)
  await assert.rejects(ours.hpke.decryptAead(randomBytes(16), randomBytes(12), data, ct), CryptoError)
  await assert.rejects(ours.signature.sign(new Uint8Array(5), plaintext), CryptoError)
})

test('HMAC and HKDF match node:crypto, for keys of any length', () => {
  for (const length of [0, 1, 31, 32, 33, 64, 65, 200]) {
    const [key, bytes] = [randomBytes(length), randomBytes(200)]
    assert.equal(hex(hmac(key, bytes)), createHmac('sha256', key).update(bytes).digest('hex'))
    for (const size of [1, 32, 33, 100]) {
      const expected = Buffer.from(hkdfSync('sha256', bytes, key, info, size)).toString('hex')
      assert.equal(hex(expand(extract(key, bytes), info, size)), expected)
    }
  }
})
