/**
 * Ed25519 (RFC 8032), by libsodium if it loads and by node:crypto otherwise. Both create the same signatures and refuse
 * the same edge cases (keys and points of small order, non-canonical encodings): members that disagree about a
 * signature would split a group. `test/vectors/ed25519.json` tests both.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'
import { PUBLIC_KEY_BYTES, SIGNATURE_BYTES } from '@static/protocol'
import { sodium, type Sodium } from './sodium.ts'

const SEED_BYTES = 32

/** A key pair: the private part is the seed of RFC 8032. */
export interface SignatureKeyPair {
  readonly publicKey: Uint8Array
  readonly seed: Uint8Array
}

/** Signs with a fixed key. */
export type Signer = (bytes: Uint8Array) => Buffer
/** Verifies signatures of a fixed key. */
export type Verifier = (bytes: Uint8Array, signature: Uint8Array) => boolean

export interface Ed25519 {
  readonly name: 'libsodium' | 'node:crypto'
  signer(key: SignatureKeyPair): Signer
  verifier(publicKey: Uint8Array): Verifier
}

/** By OpenSSL. Imports keys as JWK: DER costs ten times as much on older versions. */
export const nodeEd25519: Ed25519 = {
  name: 'node:crypto',
  signer: ({ publicKey, seed }) => {
    const key = createPrivateKey({
      key: { kty: 'OKP', crv: 'Ed25519', x: base64url(publicKey), d: base64url(seed) },
      format: 'jwk',
    })
    return (bytes) => sign(null, bytes, key)
  },
  verifier: (publicKey) => {
    if (publicKey.length !== PUBLIC_KEY_BYTES) return () => false
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: base64url(publicKey) }, format: 'jwk' })
    return (bytes, signature) => signature.length === SIGNATURE_BYTES && verify(null, bytes, key, signature)
  },
}

/** By libsodium. */
export function sodiumEd25519(sodium: Sodium): Ed25519 {
  return {
    name: 'libsodium',
    signer: ({ publicKey, seed }) => {
      const secret = sodium.sodium_malloc(SEED_BYTES + PUBLIC_KEY_BYTES)
      secret.set(seed, 0)
      secret.set(publicKey, SEED_BYTES)
      return (bytes) => {
        const signature = Buffer.allocUnsafe(SIGNATURE_BYTES)
        sodium.crypto_sign_detached(signature, bytes, secret)
        return signature
      }
    },
    verifier: (publicKey) => {
      if (publicKey.length !== PUBLIC_KEY_BYTES) return () => false
      const key = Buffer.from(publicKey)
      return (bytes, signature) =>
        signature.length === SIGNATURE_BYTES && sodium.crypto_sign_verify_detached(signature, bytes, key)
    },
  }
}

/** The fastest implementation available on this machine. */
export const ed25519: Ed25519 = sodium === undefined ? nodeEd25519 : sodiumEd25519(sodium)

export function generateSignatureKeyPair(): SignatureKeyPair {
  return signatureKeyPair(generateKeyPairSync('ed25519').privateKey)
}

/** The key pair of a node:crypto private key. */
export function signatureKeyPair(key: KeyObject): SignatureKeyPair {
  const { x, d } = key.export({ format: 'jwk' })
  if (x === undefined || d === undefined) throw new TypeError('The key is not an Ed25519 private key.')
  return { publicKey: new Uint8Array(Buffer.from(x, 'base64url')), seed: new Uint8Array(Buffer.from(d, 'base64url')) }
}

function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}
