/**
 * SHA-256, HMAC (RFC 2104) and HKDF (RFC 5869), synchronous. A message costs five HMACs over a few bytes, and
 * node:crypto's `createHmac` spends most of its time on creating its object: two plain hashes are faster, especially
 * without allocations.
 */
import { createHmac, hash } from 'node:crypto'
import { sodium } from '@static/node/sodium'

/** The length of a SHA-256 digest and of every secret in the key schedule. */
export const DIGEST_BYTES = 32
const BLOCK_BYTES = 64
const INNER_PAD = 0x36
const OUTER_PAD = 0x5c

/** Writes the SHA-256 digest (FIPS 180-4) of `bytes` to the 32 bytes of `target`. */
export const sha256Into: (target: Uint8Array, bytes: Uint8Array) => void = sodium
  ? sodium.crypto_hash_sha256
  : (target, bytes) => target.set(hash('sha256', bytes, 'buffer'))

export function sha256(bytes: Uint8Array): Uint8Array {
  const digest = new Uint8Array(DIGEST_BYTES)
  sha256Into(digest, bytes)
  return digest
}

const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES, OUTER_PAD)
const innerDigest = outer.subarray(BLOCK_BYTES)

/** Allocates an input for `hmacInto`: the first block of an HMAC, then `length` bytes to authenticate. */
export function hmacInput(length: number): Buffer {
  return Buffer.alloc(BLOCK_BYTES + length, INNER_PAD)
}

/** The offset of the bytes to authenticate in an `hmacInput`. */
export const HMAC_START: number = BLOCK_BYTES

/** Writes the HMAC-SHA-256 of an `hmacInput` under a 32-byte key to the 32 bytes of `target`, without allocating. */
export function hmacInto(target: Uint8Array, key: Uint8Array, input: Buffer): void {
  for (let at = 0; at < DIGEST_BYTES; at++) {
    const byte = key[at] ?? 0
    input[at] = byte ^ INNER_PAD
    outer[at] = byte ^ OUTER_PAD
  }
  sha256Into(innerDigest, input)
  sha256Into(target, outer)
  // Erase the key from both buffers.
  input.fill(INNER_PAD, 0, DIGEST_BYTES)
  outer.fill(OUTER_PAD, 0, DIGEST_BYTES)
}

/** The HMAC-SHA-256 of the bytes, with a key of any length. */
export function hmac(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  // Never taken for messages, so it need not be fast.
  if (key.length > DIGEST_BYTES) return createHmac('sha256', key).update(bytes).digest()
  const block = new Uint8Array(DIGEST_BYTES)
  block.set(key)
  const input = hmacInput(bytes.length)
  input.set(bytes, HMAC_START)
  const mac = new Uint8Array(DIGEST_BYTES)
  hmacInto(mac, block, input)
  block.fill(0)
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
