/**
 * ML-KEM-768 (FIPS 203), which `#platform/crypto` provides, and its implementation for platforms without one. Both give
 * the same results, as `tests/vectors/ml-kem.json` shows. A private key is always its seed (d ‖ z): the expanded form
 * is 2,400 bytes, and not every implementation checks it.
 */
import type { ml_kem768 } from '@noble/post-quantum/ml-kem.js'

/** The length of the seed of a private key. */
export const KEM_SEED_BYTES = 64
/** The length of an encapsulation key. */
export const KEM_PUBLIC_BYTES = 1184
/** The length of an encapsulated secret. */
export const KEM_CIPHERTEXT_BYTES = 1088

/** A fresh secret for the holder of a private key. */
export interface Encapsulated {
  readonly ciphertext: Uint8Array
  /** Wipe it. */
  readonly secret: Uint8Array
}

export interface MlKem {
  readonly name: 'node:crypto' | 'noble'
  /** The encapsulation key of a seed. */
  publicKeyOf(seed: Uint8Array): Uint8Array
  /**
   * Imports an encapsulation key. Each call of the result encapsulates another secret.
   *
   * @throws {Error} if the bytes are not an encapsulation key: their length is wrong, or a coefficient is too large
   */
  encapsulator(publicKey: Uint8Array): () => Encapsulated
  /**
   * The secret of a ciphertext. Wipe it. A ciphertext that was changed gives another secret, without an error.
   *
   * @throws {Error} if the ciphertext has another length
   */
  decapsulate(seed: Uint8Array, ciphertext: Uint8Array): Uint8Array
}

/** ML-KEM-768 by `@noble/post-quantum`, for platforms without it. JavaScript cannot promise constant time. */
export function nobleMlKem(noble: typeof ml_kem768): MlKem {
  return {
    name: 'noble',
    publicKeyOf: (seed) => {
      const { publicKey, secretKey } = noble.keygen(seed)
      secretKey.fill(0)
      return publicKey
    },
    encapsulator: (publicKey) => {
      const key = Uint8Array.from(publicKey)
      // The library checks a key only when it is used.
      noble.encapsulate(key).sharedSecret.fill(0)
      return () => {
        const { cipherText: ciphertext, sharedSecret: secret } = noble.encapsulate(key)
        return { ciphertext, secret }
      }
    },
    decapsulate: (seed, ciphertext) => {
      const { secretKey } = noble.keygen(seed)
      try {
        return noble.decapsulate(ciphertext, secretKey)
      } finally {
        secretKey.fill(0)
      }
    },
  }
}
