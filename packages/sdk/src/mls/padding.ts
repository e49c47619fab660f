/**
 * Padding of application messages (SPEC.md, "Traffic"): the relay learns a bucket, never a length.
 *
 * A bucket is a whole number of cells, each with 1,021 bytes of an envelope. Around the ciphertext an envelope holds
 * ids, counters and times: at most 79 bytes as SendMessage and 125 as DeliverMessage, in either wire form and with
 * every number as long as it can be. 128 are kept for it, so the ciphertext of a bucket has
 *
 *     cells × 1,021 − 128 bytes
 *
 * and the last cell is never empty. Of the ciphertext MLS itself takes 146 to 150: head 30, length and encrypted
 * sender data 29, tag 16, signature 66, and the three lengths of authenticated data, ciphertext and plaintext. The rest
 * is for the plaintext, in which the SDK puts ids, counter and hashes before the payload, and the authenticated data:
 *
 *     cells   ciphertext   plaintext   beyond a payload of
 *         2        1,914       1,768     1,024 by 744
 *         5        4,977       4,831     4,096 by 735
 *        17       17,229      17,079    16,384 by 695
 *        65       66,237      66,087    65,536 by 551
 *       258      263,290     263,140   262,144 by 996
 *
 * Padding hides neither that a message was sent nor when, and a bucket still tells a long message from a short one.
 */
import { CELL_PAYLOAD_BYTES, SIGNATURE_BYTES, StaticError } from '@static/protocol'
import { lengthBytes } from './framing.ts'
import { TAG_BYTES } from './provider.ts'

const ENVELOPE_BYTES = 128

/** A size that messages come in. */
export interface Bucket {
  /** How many cells its SendMessage and its DeliverMessage fill. */
  readonly cells: number
  /** The whole MLSMessage. */
  readonly ciphertextBytes: number
}

/** Every size, from the smallest. Messages of the SDK itself use the first one only. */
export const BUCKETS: readonly Bucket[] = [2, 5, 17, 65, 258].map((cells) => ({
  cells,
  ciphertextBytes: cells * CELL_PAYLOAD_BYTES - ENVELOPE_BYTES,
}))

/**
 * The length of a PrivateMessageContent (plaintext, signature, zeros) that makes the message exactly as long as its
 * bucket. `headBytes` is everything before the ciphertext's length.
 *
 * @throws {StaticError} `too_large` when no bucket holds it
 */
export function contentBytes(plaintextBytes: number, headBytes: number): number {
  const needed = lengthBytes(plaintextBytes) + plaintextBytes + lengthBytes(SIGNATURE_BYTES) + SIGNATURE_BYTES
  for (const { ciphertextBytes } of BUCKETS) {
    const rest = ciphertextBytes - headBytes
    const sealed = ([1, 2, 4] as const).find((size) => lengthBytes(rest - size) === size)
    // Two lengths in all cannot be written this way, so they are passed over for the next bucket.
    if (sealed !== undefined && rest - sealed - TAG_BYTES >= needed) return rest - sealed - TAG_BYTES
  }
  throw StaticError.of('too_large')
}
