/** The mathematics that the core asks for: node:crypto, and libsodium for signatures where it loads. */
import { createHash, createHmac, createPublicKey, randomBytes, timingSafeEqual, verify } from 'node:crypto'
import type { CoreCrypto } from './core/io.ts'

/** What is used of sodium-native. */
interface Sodium {
  crypto_sign_verify_detached(signature: Uint8Array, message: Uint8Array, publicKey: Uint8Array): boolean
}

const PUBLIC_KEY_BYTES = 32
const SIGNATURE_BYTES = 64
/** What stands before an Ed25519 key in DER (RFC 8410). */
const DER_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')

/** Makes it. */
export async function makeCrypto(): Promise<CoreCrypto> {
  const sodium = await loadSodium()
  const check = sodium
    ? (key: Uint8Array, bytes: Uint8Array, signature: Uint8Array): boolean =>
        sodium.crypto_sign_verify_detached(signature, bytes, key)
    : verifyByNode
  return {
    hash: (bytes) => createHash('sha256').update(bytes).digest(),
    verify: (publicKey, bytes, signature) =>
      publicKey.length === PUBLIC_KEY_BYTES &&
      signature.length === SIGNATURE_BYTES &&
      check(publicKey, bytes, signature),
    mac: (key, bytes) => createHmac('sha256', key).update(bytes).digest(),
    equal: (a, b) => a.length === b.length && timingSafeEqual(a, b),
    random: (length) => randomBytes(length),
  }
}

function verifyByNode(publicKey: Uint8Array, bytes: Uint8Array, signature: Uint8Array): boolean {
  try {
    const key = createPublicKey({ key: Buffer.concat([DER_PREFIX, publicKey]), format: 'der', type: 'spki' })
    return verify(null, bytes, key, signature)
  } catch {
    // Bytes that are no point of the curve.
    return false
  }
}

async function loadSodium(): Promise<Sodium | undefined> {
  try {
    // @ts-expect-error: it has no types of its own; `Sodium` says what is used.
    return (await import('sodium-native')).default as Sodium
  } catch {
    return undefined
  }
}
