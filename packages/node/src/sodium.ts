/** libsodium, if its prebuilt binary loads: its Ed25519 and SHA-256 take about half the time of OpenSSL's. */
import { createRequire } from 'node:module'

/** The functions of sodium-native used here. */
export interface Sodium {
  /** BLAKE2b (RFC 7693) with a key, which makes it a MAC: takes a quarter of the time of libsodium's HMAC. */
  crypto_generichash(tag: Buffer, message: Uint8Array, key: Buffer): void
  readonly crypto_hash_sha256: (hash: Uint8Array, bytes: Uint8Array) => void
  crypto_sign_detached(signature: Uint8Array, bytes: Uint8Array, secretKey: Buffer): void
  crypto_sign_verify_detached(signature: Uint8Array, bytes: Uint8Array, publicKey: Uint8Array): boolean
  /** Memory that is kept out of swap and core dumps. */
  sodium_malloc(size: number): Buffer
}

/** Undefined if the library does not load. Not an `import`, which would make every importer asynchronous. */
export const sodium: Sodium | undefined = load()

function load(): Sodium | undefined {
  try {
    const require = createRequire(import.meta.url)
    return require('sodium-native') as Sodium
  } catch {
    return undefined
  }
}
