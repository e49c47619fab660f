/** Prints the Ed25519 that this runtime uses, after it and node:crypto have passed the vectors. Started by lab/runtimes. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { ed25519, nodeEd25519 } from '../src/ed25519.ts'

type Case = Readonly<Record<'note' | 'expect' | 'seed' | 'key' | 'message' | 'signature', string>>

const ROUNDS = 8
const vectors = JSON.parse(readFileSync(join(import.meta.dirname, 'vectors/ed25519.json'), 'utf8')) as {
  readonly valid: readonly Case[]
  readonly speccheck: readonly Case[]
  readonly small: readonly string[]
}
const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex')

for (const backEnd of new Set([ed25519, nodeEd25519])) {
  const { name } = backEnd
  const verifies = (key: string, message: Uint8Array, signature: string): boolean =>
    backEnd.verifier(bytes(key))(message, bytes(signature))
  for (const { seed, key, message, signature } of vectors.valid) {
    const made = backEnd.signer({ seed: bytes(seed), publicKey: bytes(key) })(bytes(message))
    assert.equal(made.toString('hex'), signature, name)
    assert.ok(verifies(key, bytes(message), signature), name)
  }
  for (const { note, expect, key, message, signature } of vectors.speccheck)
    assert.equal(verifies(key, bytes(message), signature), expect === 'valid', `${name}: ${note}`)
  for (const [key, point] of vectors.small.flatMap((key) => vectors.small.map((point) => [key, point] as const)))
    for (let round = 0; round < ROUNDS; round++)
      assert.ok(!verifies(key, randomBytes(8), point.padEnd(128, '0')), `${name}: ${key} and ${point}`)
}
process.stdout.write(`${ed25519.name}\n`)
