import assert from 'node:assert/strict'
import { createHash, generateKeyPairSync, randomBytes, verify } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Ed25519, generateSignatureKeyPair, nodeEd25519, signatureKeyPair, sodiumEd25519 } from '../src/ed25519.ts'
import { sodium } from '../src/sodium.ts'

interface Case {
  readonly note: string
  readonly expect: 'valid' | 'refused'
  readonly seed: string
  readonly key: string
  readonly message: string
  readonly signature: string
}

const vectors = JSON.parse(readFileSync(join(import.meta.dirname, 'vectors/ed25519.json'), 'utf8')) as {
  readonly valid: readonly Case[]
  readonly speccheck: readonly Case[]
  readonly small: readonly string[]
}
assert.ok(sodium, 'libsodium loads on the machines that test it')
const backEnds: readonly Ed25519[] = [nodeEd25519, sodiumEd25519(sodium)]
const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex')
const GROUP_ORDER = (1n << 252n) + 27742317777372353535851937790883648493n

/** Little-endian, as everything in RFC 8032. */
const numberOf = (value: Uint8Array): bigint => BigInt(`0x${Buffer.from(value.toReversed()).toString('hex')}`)
const bytesOf = (value: bigint): Buffer => Buffer.from(bytes(value.toString(16).padStart(64, '0')).toReversed())
const sha512 = (...parts: Uint8Array[]): Buffer => createHash('sha512').update(Buffer.concat(parts)).digest()

/** A signature by the holder of the key whose R is a point of its choice: right if R is the identity. */
function signWith(seed: Uint8Array, publicKey: Uint8Array, point: Uint8Array, message: Uint8Array): Buffer {
  const half = sha512(seed).subarray(0, 32)
  half[0]! &= 248
  half[31] = (half[31]! & 63) | 64
  const challenge = numberOf(sha512(point, publicKey, message)) % GROUP_ORDER
  return Buffer.concat([point, bytesOf((challenge * numberOf(half)) % GROUP_ORDER)])
}

for (const backEnd of backEnds) {
  const { name } = backEnd
  const verifies = (key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean =>
    backEnd.verifier(key)(message, signature)

  test(`${name}: the signature of RFC 8032`, () => {
    for (const { seed, key, message, signature } of vectors.valid) {
      const made = backEnd.signer({ seed: bytes(seed), publicKey: bytes(key) })(bytes(message))
      assert.equal(Buffer.from(made).toString('hex'), signature)
      assert.ok(verifies(bytes(key), bytes(message), bytes(signature)))
      assert.ok(!verifies(bytes(key), Buffer.from('x'), bytes(signature)))
    }
  })

  test(`${name}: the edge cases in which implementations differ`, () => {
    for (const { note, expect, key, message, signature } of vectors.speccheck)
      assert.equal(verifies(bytes(key), bytes(message), bytes(signature)), expect === 'valid', note)
  })

  test(`${name}: keys and R values of small order are rejected, in any encoding`, () => {
    const { seed, publicKey } = generateSignatureKeyPair()
    for (const point of vectors.small.map(bytes)) {
      for (let round = 0; round < 8; round++) {
        const message = randomBytes(8)
        for (const other of vectors.small.map(bytes))
          assert.ok(!verifies(point, message, Buffer.concat([other, Buffer.alloc(32)])), point.toString('hex'))
        assert.ok(!verifies(publicKey, message, signWith(seed, publicKey, point, message)), point.toString('hex'))
      }
    }
  })

  test(`${name}: wrong lengths, and a signature whose S is too large by the group order, are rejected`, () => {
    const key = generateSignatureKeyPair()
    const message = randomBytes(20)
    const signature = Buffer.from(backEnd.signer(key)(message))
    const high = Buffer.concat([signature.subarray(0, 32), bytesOf(numberOf(signature.subarray(32)) + GROUP_ORDER)])
    assert.ok(verifies(key.publicKey, message, signature))
    assert.ok(!verifies(key.publicKey, message, high))
    assert.ok(!verifies(key.publicKey, message, signature.subarray(1)))
    assert.ok(!verifies(key.publicKey, message, Buffer.concat([signature, Buffer.alloc(1)])))
    assert.ok(!verifies(key.publicKey.subarray(1), message, signature))
    assert.ok(!verifies(new Uint8Array(), message, signature))
  })
}

test('both produce the same signatures', () => {
  const key = generateSignatureKeyPair()
  const message = randomBytes(300)
  const [one, other] = backEnds.map((backEnd) => Buffer.from(backEnd.signer(key)(message)).toString('hex'))
  assert.equal(one, other)
})

test('a private key from node:crypto signs with both', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const message = randomBytes(300)
  for (const backEnd of backEnds) {
    assert.ok(verify(null, message, publicKey, backEnd.signer(signatureKeyPair(privateKey))(message)), backEnd.name)
  }
  assert.throws(() => signatureKeyPair(publicKey), TypeError)
})
