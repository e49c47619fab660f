/**
 * The cipher suites of MLS (RFC 9420, section 5.1) and their AEADs (RFC 5116). No library here: the ratchet calls them
 * directly, the MLS library through ts-mls/provider.ts.
 */
import { createCipheriv, createDecipheriv } from 'node:crypto'

/** The differences between suites; all use X25519, SHA-256 and Ed25519. */
export interface Suite {
  /** Its name in RFC 9420, section 17.1. */
  readonly name: 'MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519' | 'MLS_128_DHKEMX25519_CHACHA20POLY1305_SHA256_Ed25519'
  readonly aead: 'aes-128-gcm' | 'chacha20-poly1305'
  readonly keyBytes: number
  /** The HPKE identifier of the AEAD. */
  readonly hpkeAead: number
}

/** The suite that channels use. */
export const SUITE: Suite = {
  name: 'MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519',
  aead: 'aes-128-gcm',
  keyBytes: 16,
  hpkeAead: 1,
}

/** The length of an AEAD nonce in every suite. */
export const NONCE_BYTES = 12
/** The length of an AEAD tag in every suite. */
export const TAG_BYTES = 16

/** Encrypts into `target` and appends the tag. `key` is the AEAD key followed by the nonce. */
export function seal(
  suite: Suite,
  key: Uint8Array,
  data: Uint8Array,
  plaintext: Uint8Array,
  target: Uint8Array,
  at: number,
): void {
  const { keyBytes } = suite
  // The types differ per AEAD, but both accept the same calls.
  const cipher = createCipheriv(suite.aead as 'aes-128-gcm', key.subarray(0, keyBytes), key.subarray(keyBytes), {
    authTagLength: TAG_BYTES,
  })
  if (data.length > 0) cipher.setAAD(data)
  target.set(cipher.update(plaintext), at)
  cipher.final()
  target.set(cipher.getAuthTag(), at + plaintext.length)
}

/**
 * Decrypts the output of `seal`.
 *
 * @throws {Error} if it is shorter than a tag, or the tag does not match
 */
export function unseal(suite: Suite, key: Uint8Array, data: Uint8Array, sealed: Uint8Array): Buffer {
  const { keyBytes } = suite
  const length = sealed.length - TAG_BYTES
  if (length < 0) throw new Error(`A ciphertext must be at least ${TAG_BYTES} bytes, not ${sealed.length}.`)
  const decipher = createDecipheriv(suite.aead as 'aes-128-gcm', key.subarray(0, keyBytes), key.subarray(keyBytes), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAuthTag(sealed.subarray(length))
  if (data.length > 0) decipher.setAAD(data)
  const plaintext = decipher.update(sealed.subarray(0, length))
  decipher.final()
  return plaintext
}
