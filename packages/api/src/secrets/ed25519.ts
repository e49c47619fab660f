/**
 * Ed25519 signatures (RFC 8032): by libsodium where its prebuilt binary loads, which takes less than half the time of
 * the way through node:crypto, and by that otherwise. The same key and bytes give the same signature in both.
 */
import { type KeyObject, sign } from 'node:crypto'
import type { Sodium } from './sodium.ts'

/** Signs bytes with one key. */
export type Signer = (bytes: Uint8Array) => Buffer

const SIGNATURE_BYTES = 64

/** A signer by libsodium. */
export function sodiumSigner(sodium: Sodium, key: KeyObject): Signer {
  const { d, x } = key.export({ format: 'jwk' })
  if (d === undefined || x === undefined) throw new TypeError('This is not an Ed25519 private key.')
  const secret = sodium.sodium_malloc(SIGNATURE_BYTES)
  secret.set(Buffer.from(d, 'base64url'), 0)
  secret.set(Buffer.from(x, 'base64url'), 32)
  return (bytes) => {
    const signature = Buffer.allocUnsafe(SIGNATURE_BYTES)
    sodium.crypto_sign_detached(signature, bytes, secret)
    return signature
  }
}

/** A signer by node:crypto. */
export function nodeSigner(key: KeyObject): Signer {
  return (bytes) => sign(null, bytes, key)
}
