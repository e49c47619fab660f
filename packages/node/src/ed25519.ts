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

/** By OpenSSL; in Bun and Deno by BoringSSL. Imports keys as JWK: DER costs ten times as much on older versions. */
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
    if (publicKey.length !== PUBLIC_KEY_BYTES || isSmall(publicKey)) return () => false
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: base64url(publicKey) }, format: 'jwk' })
    return (bytes, signature) =>
      signature.length === SIGNATURE_BYTES && !isSmall(signature) && verify(null, bytes, key, signature)
  },
}

/** The y-coordinates of the points of small order, in each encoding. */
const SMALL: ReadonlySet<string> = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
])

/** Whether a key, or the point that a signature begins with, has a small order. OpenSSL refuses them, BoringSSL does not. */
function isSmall(point: Uint8Array): boolean {
  const y = Buffer.from(point.subarray(0, PUBLIC_KEY_BYTES))
  // Without the sign of x.
  y.writeUInt8(y.readUInt8(PUBLIC_KEY_BYTES - 1) & 0x7f, PUBLIC_KEY_BYTES - 1)
  return SMALL.has(y.toString('hex'))
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
