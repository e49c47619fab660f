/** Prints the ML-KEM-768 that this runtime uses, after it has passed the vectors. Started by lab/runtimes. */
import assert from 'node:assert/strict'
import { fromHex, toHex } from '@static/protocol'
import { mlKem768 } from '../../src/platform/node/ml-kem.ts'
import { readVectors } from '../vectors/own.ts'

const { valid } = readVectors('ml-kem.json') as {
  readonly valid: readonly Record<'about' | 'seed' | 'public_key' | 'ciphertext' | 'secret', string>[]
}
for (const { about, seed, public_key: publicKey, ciphertext, secret } of valid) {
  assert.equal(toHex(mlKem768.publicKeyOf(fromHex(seed))), publicKey, about)
  assert.equal(toHex(mlKem768.decapsulate(fromHex(seed), fromHex(ciphertext))), secret, about)
  const sealed = mlKem768.encapsulator(fromHex(publicKey))()
  assert.equal(toHex(mlKem768.decapsulate(fromHex(seed), sealed.ciphertext)), toHex(sealed.secret), about)
}
process.stdout.write(`${mlKem768.name}, ${valid.length} vectors\n`)
