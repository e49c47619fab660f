/**
 * The cipher suites of MLS (RFC 9420, section 5.1) and their AEADs (RFC 5116). Independent of any library: the ratchet
 * calls them directly, the MLS library through ts-mls/provider.ts.
 */
import { type Cipher, decrypt, encryptInto, type Sealing } from '#platform/crypto'

/** The differences between suites; all use X25519, SHA-256 and Ed25519. */
export interface Suite {
  /** Its name in RFC 9420, section 17.1. */
  readonly name: 'MLS_128_DHKEMX25519_AES128GCM_SHA256_Ed25519' | 'MLS_128_DHKEMX25519_CHACHA20POLY1305_SHA256_Ed25519'
  readonly aead: Exclude<Cipher, 'aes-256-gcm'>
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
  encryptInto(target, at, sealingOf(suite, key, data), plaintext)
}

/**
 * Decrypts the output of `seal`.
 *
 * @throws {Error} if it is shorter than a tag, or the tag does not match
 */
export function unseal(suite: Suite, key: Uint8Array, data: Uint8Array, sealed: Uint8Array): Uint8Array {
  return decrypt(sealingOf(suite, key, data), sealed)
}

function sealingOf({ aead, keyBytes }: Suite, key: Uint8Array, data: Uint8Array): Sealing {
  return { cipher: aead, key: key.subarray(0, keyBytes), nonce: key.subarray(keyBytes), data }
}
