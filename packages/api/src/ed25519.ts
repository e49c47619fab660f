/**
 * Ed25519 signatures (RFC 8032): by libsodium where its prebuilt binary loads, which takes less than half the time of
 * the way through node:crypto, and by that otherwise. The same key and bytes give the same signature in both.
 */
import { type KeyObject, sign } from 'node:crypto'

/** Signs bytes with one key. */
export type Signer = (bytes: Uint8Array) => Buffer

/** What is used of sodium-native. */
interface Sodium {
  crypto_sign_detached(signature: Buffer, message: Uint8Array, secretKey: Buffer): void
  sodium_malloc(size: number): Buffer
}

const SIGNATURE_BYTES = 64

/** A signer by libsodium; undefined where it does not load. */
export async function sodiumSigner(key: KeyObject): Promise<Signer | undefined> {
  const sodium = await load()
  if (!sodium) return undefined
  const { d, x } = key.export({ format: 'jwk' })
  if (d === undefined || x === undefined) throw new TypeError('This is not an Ed25519 private key.')
  // Kept out of swap and core dumps by libsodium.
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

async function load(): Promise<Sodium | undefined> {
  try {
    // @ts-expect-error: it has no types of its own; `Sodium` says what is used.
    return (await import('sodium-native')).default as Sodium
  } catch {
    return undefined
  }
}
