/**
 * SHA-256, HMAC (RFC 2104) and HKDF (RFC 5869), synchronous. A message costs five HMACs over a few bytes, and most of
 * what node:crypto's `createHmac` takes for one is the making of its object: two plain hashes are quicker, most of all
 * when they need no memory.
 */
import { createHmac, hash } from 'node:crypto'
import { sodium } from '@static/node/sodium'

/** The length of SHA-256 and of every secret of the key schedule. */
export const DIGEST_BYTES = 32
const BLOCK_BYTES = 64
const INNER_PAD = 0x36
const OUTER_PAD = 0x5c

/** Writes SHA-256 (FIPS 180-4) of the bytes to 32 bytes of another array. */
export const sha256Into: (target: Uint8Array, bytes: Uint8Array) => void = sodium
  ? sodium.crypto_hash_sha256
  : (target, bytes) => target.set(hash('sha256', bytes, 'buffer'))

/** SHA-256 of the bytes. */
export function sha256(bytes: Uint8Array): Uint8Array {
  const digest = new Uint8Array(DIGEST_BYTES)
  sha256Into(digest, bytes)
  return digest
}

const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES, OUTER_PAD)
const innerDigest = outer.subarray(BLOCK_BYTES)

/** The first block of an HMAC, for `hmacInto`; what is authenticated stands behind it. */
export function hmacInput(length: number): Buffer {
  return Buffer.alloc(BLOCK_BYTES + length, INNER_PAD)
}

/** Where the authenticated bytes stand in an `hmacInput`. */
export const HMAC_START: number = BLOCK_BYTES

/** Writes HMAC-SHA-256 under a key of 32 bytes to 32 bytes of another array, with the least work: no memory is taken. */
export function hmacInto(target: Uint8Array, key: Uint8Array, input: Buffer): void {
  for (let at = 0; at < DIGEST_BYTES; at++) {
    const byte = key[at] ?? 0
    input[at] = byte ^ INNER_PAD
    outer[at] = byte ^ OUTER_PAD
  }
  sha256Into(innerDigest, input)
  sha256Into(target, outer)
  // What is left of the key in them.
  input.fill(INNER_PAD, 0, DIGEST_BYTES)
  outer.fill(OUTER_PAD, 0, DIGEST_BYTES)
}

/** HMAC-SHA-256 of the bytes under any key. */
export function hmac(key: Uint8Array, bytes: Uint8Array): Uint8Array {
  // Never on the way of a message.
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
