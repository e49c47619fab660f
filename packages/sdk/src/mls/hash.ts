/**
 * SHA-256, HMAC (RFC 2104) and HKDF (RFC 5869), synchronous. A message costs five HMACs over a few bytes. The
 * platform's HMAC spends most of its time creating an object, so two plain hashes are faster, especially without
 * allocations.
 */
import { hmacSha256, sha256Into } from '#platform/crypto'

/** The length of a SHA-256 digest and of every secret in the key schedule. */
export const DIGEST_BYTES = 32
const BLOCK_BYTES = 64
const INNER_PAD = 0x36
const OUTER_PAD = 0x5c

export function sha256(bytes: Uint8Array): Uint8Array {
  const digest = new Uint8Array(DIGEST_BYTES)
  sha256Into(digest, bytes)
  return digest
}

const outer = new Uint8Array(BLOCK_BYTES + DIGEST_BYTES).fill(OUTER_PAD)
const innerDigest = outer.subarray(BLOCK_BYTES)

/** Allocates an input for `hmacInto`: the first block of an HMAC, then `length` bytes to authenticate. */
export function hmacInput(length: number): Uint8Array {
  return new Uint8Array(BLOCK_BYTES + length).fill(INNER_PAD)
}

/** The offset of the bytes to authenticate in an `hmacInput`. */
export const HMAC_START: number = BLOCK_BYTES

/** Writes the HMAC-SHA-256 of an `hmacInput` under a 32-byte key to the 32 bytes of `target`, without allocating. */
export function hmacInto(target: Uint8Array, key: Uint8Array, input: Uint8Array): void {
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
  // Not used for messages, so it need not be fast.
  if (key.length > DIGEST_BYTES) return hmacSha256(key, bytes)
  const block = new Uint8Array(DIGEST_BYTES)
  block.set(key)
  const input = hmacInput(bytes.length)
  input.set(bytes, HMAC_START)
  const mac = new Uint8Array(DIGEST_BYTES)
  hmacInto(mac, block, input)
  block.fill(0)
  // The authenticated bytes may be a secret as well, as in HKDF-Extract.
  input.fill(0)
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
    const next = hmac(secret, input)
    output.set(next.subarray(0, length - at), at)
    input.fill(0)
    block.fill(0)
    block = next
  }
  block.fill(0)
  return output
}
