import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refhash } from 'ts-mls/crypto/hash.js'
import { decryptWithLabel, encryptWithLabel } from 'ts-mls/crypto/hpke.js'
import { deriveSecret, deriveTreeSecret, expandWithLabel } from 'ts-mls/crypto/kdf.js'
import { signWithLabel, verifyWithLabel } from 'ts-mls/crypto/signature.js'
import { hex } from '../mls/support.ts'
import { bytesOf, cryptoOf, type OfSuite, readVectors } from './support.ts'

interface Basics extends OfSuite {
  readonly ref_hash: { readonly label: string; readonly value: string; readonly out: string }
  readonly expand_with_label: Derivation & { readonly context: string; readonly length: number }
  readonly derive_secret: Derivation
  readonly derive_tree_secret: Derivation & { readonly generation: number; readonly length: number }
  readonly sign_with_label: KeyPair & { readonly content: string; readonly signature: string }
  readonly encrypt_with_label: KeyPair & {
    readonly context: string
    readonly plaintext: string
    readonly kem_output: string
    readonly ciphertext: string
  }
}

interface Derivation {
  readonly secret: string
  readonly label: string
  readonly out: string
}

interface KeyPair {
  readonly priv: string
  readonly pub: string
  readonly label: string
}

for (const vector of readVectors('crypto-basics') as readonly Basics[]) {
  const { kdf, hash, signature, hpke } = cryptoOf(vector).provider

  test(`suite ${vector.cipher_suite}: hashes and derived secrets`, async () => {
    const { ref_hash, expand_with_label: expanded, derive_secret: derived, derive_tree_secret: tree } = vector
    assert.equal(hex(await refhash(ref_hash.label, bytesOf(ref_hash.value), hash)), ref_hash.out)
    assert.equal(
      hex(
        await expandWithLabel(
          bytesOf(expanded.secret),
          expanded.label,
          bytesOf(expanded.context),
          expanded.length,
          kdf,
        ),
      ),
      expanded.out,
    )
    assert.equal(hex(await deriveSecret(bytesOf(derived.secret), derived.label, kdf)), derived.out)
    assert.equal(
      hex(await deriveTreeSecret(bytesOf(tree.secret), tree.label, tree.generation, tree.length, kdf)),
      tree.out,
    )
  })

  test(`suite ${vector.cipher_suite}: signatures`, async () => {
    const { label, ...signed } = vector.sign_with_label
    const [publicKey, content] = [bytesOf(signed.pub), bytesOf(signed.content)]
    assert.ok(await verifyWithLabel(publicKey, label, content, bytesOf(signed.signature), signature))
    // Ed25519 is deterministic.
    assert.equal(hex(await signWithLabel(bytesOf(signed.priv), label, content, signature)), signed.signature)
    assert.equal(await verifyWithLabel(publicKey, 'other', content, bytesOf(signed.signature), signature), false)
  })

  test(`suite ${vector.cipher_suite}: HPKE`, async () => {
    const { label, ...sealed } = vector.encrypt_with_label
    const context = bytesOf(sealed.context)
    const privateKey = await hpke.importPrivateKey(bytesOf(sealed.priv))
    const open = async (kemOutput: Uint8Array, ciphertext: Uint8Array): Promise<string> =>
      hex(await decryptWithLabel(privateKey, label, context, kemOutput, ciphertext, hpke))
    assert.equal(await open(bytesOf(sealed.kem_output), bytesOf(sealed.ciphertext)), sealed.plaintext)
    const publicKey = await hpke.importPublicKey(bytesOf(sealed.pub))
    const { enc, ct } = await encryptWithLabel(publicKey, label, context, bytesOf(sealed.plaintext), hpke)
    assert.equal(await open(enc, ct), sealed.plaintext)
  })
}
