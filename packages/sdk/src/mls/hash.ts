/**
 * SHA-256, HMAC (RFC 2104) and HKDF (RFC 5869), synchronous. A message costs five HMACs over a few bytes, and most of
 * what node:crypto's `createHmac` takes for one is the making of its object: two plain hashes are quicker.
 */
import { hash } from 'node:crypto'
import { sodium } from './sodium.ts'

/** The length of SHA-256 and of every secret of the key schedule. */
export const DIGEST_BYTES = 32
const BLOCK_BYTES = 64
const INNER_PAD = 0x36
const OUTER_PAD = 0x5c

/** SHA-256 (FIPS 180-4). */
export const sha256: (bytes: Uint8Array) => Uint8Array = sodium
  ? ((library) => (bytes: Uint8Array) => {
      const digest = Buffer.allocUnsafeSlow(DIGEST_BYTES)
      library.crypto_hash_sha256(digest, bytes)
      return digest
    })(sodium)
  : (bytes) => hash('sha256', bytes, 'buffer')

/** HMAC-SHA-256 of the bytes. */
export function hmac(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  const inner = new Uint8Array(BLOCK_BYTES + bytes.length)
  const outer = new Uint8Array(BLOCK_BYTES + DIGEST_BYTES)
  const block = key.length > BLOCK_BYTES ? sha256(key) : key
  inner.fill(INNER_PAD, 0, BLOCK_BYTES)
  outer.fill(OUTER_PAD, 0, BLOCK_BYTES)
  for (let at = 0; at < block.length; at++) {
    const byte = block[at] ?? 0
    inner[at] = byte ^ INNER_PAD
    outer[at] = byte ^ OUTER_PAD
  }
  inner.set(bytes, BLOCK_BYTES)
  outer.set(sha256(inner), BLOCK_BYTES)
  const mac = sha256(outer)
  // What is left of the key in them.
  inner.fill(0, 0, BLOCK_BYTES)
  outer.fill(0, 0, BLOCK_BYTES)
  return mac
}

/** HKDF-Extract. */
export function extract(salt: Uint8Array, secret: Uint8Array): Uint8Array {
  return hmac(salt, secret)
}

/** HKDF-Expand. */
export function expand(secret: Uint8Array, info: Uint8Array, length: number): Uint8Array {
  const output = new Uint8Array(length)
  let block: Uint8Array = new Uint8Array()
  for (let count = 1, at = 0; at < length; count++, at += DIGEST_BYTES) {
    const input = new Uint8Array(block.length + info.length + 1)
    input.set(block)
    input.set(info, block.length)
    input[input.length - 1] = count
    block = hmac(secret, input)
    output.set(block.subarray(0, length - at), at)
  }
  return output
}
