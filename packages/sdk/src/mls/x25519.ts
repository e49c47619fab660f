/**
 * Which byte strings are usable encryption keys (X25519, RFC 7748). With a point of small order every Diffie-Hellman
 * result is zero, so encrypting to it fails: one such leaf would block every commit that has to reach it.
 */
import { fromHex } from '@static/protocol'
import { latin1 } from '../platform/bytes.ts'

const KEY_BYTES = 32

/** Every u-coordinate of small order below 2^255, including the non-reduced ones; little-endian. */
const SMALL_ORDER = new Set(
  [
    '0000000000000000000000000000000000000000000000000000000000000000',
    '0100000000000000000000000000000000000000000000000000000000000000',
    'e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800',
    '5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157',
    'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  ].map((hex) => latin1(fromHex(hex))),
)

/** Whether a public key can be encrypted to. */
export function isEncryptionKey(key: Uint8Array): boolean {
  if (key.length !== KEY_BYTES) return false
  // X25519 ignores the highest bit.
  const point = Uint8Array.from(key)
  point[KEY_BYTES - 1] = (point[KEY_BYTES - 1] ?? 0) & 0x7f
  return !SMALL_ORDER.has(latin1(point))
}
