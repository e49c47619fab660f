import type { Suite } from '../../src/mls/aead.ts'

/** Suite 3 of RFC 9420: the one that the peer of the interoperability tests has. */
export const CHACHA_SUITE: Suite = {
  name: 'MLS_128_DHKEMX25519_CHACHA20POLY1305_SHA256_Ed25519',
  aead: 'chacha20-poly1305',
  keyBytes: 32,
  hpkeAead: 3,
}
