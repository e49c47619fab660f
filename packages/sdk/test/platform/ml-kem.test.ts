/** ML-KEM-768, by OpenSSL and in JavaScript: vectors that a third implementation made, and each with the other. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { ml_kem768 } from '@noble/post-quantum/ml-kem.js'
import { fromHex, toHex } from '@static/protocol'
import { type MlKem, nobleMlKem } from '../../src/platform/ml-kem.ts'
import { mlKem768, nodeMlKem } from '../../src/platform/node/ml-kem.ts'
import { readVectors } from '../vectors/own.ts'

const { valid, refused } = readVectors('ml-kem.json') as {
  readonly valid: readonly Record<'about' | 'seed' | 'public_key' | 'message' | 'ciphertext' | 'secret', string>[]
  readonly refused: readonly {
    readonly about: string
    readonly what: 'public_key' | 'ciphertext'
    readonly bytes: string
  }[]
}
const noble = nobleMlKem(ml_kem768)
const backEnds: readonly MlKem[] = [nodeMlKem, noble]

for (const backEnd of backEnds) {
  const { name } = backEnd

  test(`${name}: the vectors`, () => {
    for (const { about, seed, public_key: publicKey, ciphertext, secret } of valid) {
      assert.equal(toHex(backEnd.publicKeyOf(fromHex(seed))), publicKey, about)
      assert.equal(toHex(backEnd.decapsulate(fromHex(seed), fromHex(ciphertext))), secret, about)
    }
  })

  test(`${name}: bad keys and ciphertexts of another length`, () => {
    const seed = fromHex(valid[0]!.seed)
    for (const { about, what, bytes } of refused) {
      const use = (given: Uint8Array): unknown =>
        what === 'public_key' ? backEnd.encapsulator(given) : backEnd.decapsulate(seed, given)
      assert.throws(() => use(fromHex(bytes)), Error, about)
    }
    assert.throws(() => backEnd.publicKeyOf(seed.subarray(1)))
  })

  test(`${name}: seals for the other, each time another secret`, () => {
    for (const other of backEnds) {
      const seed = new Uint8Array(randomBytes(64))
      const encapsulate = backEnd.encapsulator(other.publicKeyOf(seed))
      const made = [encapsulate(), encapsulate()]
      assert.equal(new Set(made.map(({ secret }) => toHex(secret))).size, 2)
      for (const { ciphertext, secret } of made) {
        assert.equal(toHex(other.decapsulate(seed, ciphertext)), toHex(secret))
        ciphertext[7]! ^= 1
        assert.notEqual(toHex(other.decapsulate(seed, ciphertext)), toHex(secret))
      }
    }
  })
}

test('a ciphertext of the vectors is made again', () => {
  const [first, second] = valid
  for (const { public_key: publicKey, message, ciphertext, secret } of [first!, second!]) {
    const made = ml_kem768.encapsulate(fromHex(publicKey), fromHex(message))
    assert.deepEqual([toHex(made.cipherText), toHex(made.sharedSecret)], [ciphertext, secret])
  }
})

test('Node uses OpenSSL, and a Node without it the other one', () => {
  assert.equal(mlKem768, nodeMlKem)
  const path = new URL('../../src/platform/node/ml-kem.ts', import.meta.url).href
  const [{ seed, ciphertext, secret } = assert.fail()] = valid
  const program = `
    import crypto from 'node:crypto'
    delete crypto.encapsulate
    const { mlKem768 } = await import('${path}')
    const [seed, ciphertext] = ['${seed}', '${ciphertext}'].map((hex) => Buffer.from(hex, 'hex'))
    console.log(mlKem768.name, Buffer.from(mlKem768.decapsulate(seed, ciphertext)).toString('hex'))`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
  assert.equal(stdout.trim(), `noble ${secret}`, stderr)
})
