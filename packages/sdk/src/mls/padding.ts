/**
 * Padding of application messages (SPEC.md, "Traffic"): the relay learns the bucket of a message, never its length.
 *
 * A bucket is a whole number of cells, each with 1,021 bytes of an envelope. Besides the ciphertext, an envelope holds
 * ids, counters and times: at most 79 bytes as SendMessage and 125 as DeliverMessage, in either wire form and with
 * every number at its maximum length. 128 bytes are reserved for them, so the ciphertext of a bucket is
 *
 *     cells × 1,021 − 128 bytes
 *
 * long and the last cell is never empty. MLS itself uses 146 to 150 bytes of the ciphertext: head 30, length and
 * encrypted sender data 29, tag 16, signature 66, and the lengths of authenticated data, ciphertext and plaintext. The
 * rest holds the authenticated data and the plaintext, where the SDK puts ids, counter and hashes before the payload:
 *
 *     cells   ciphertext   plaintext   payload + room for the rest
 *         2        1,914       1,768     1,024 + 744
 *         5        4,977       4,831     4,096 + 735
 *        17       17,229      17,079    16,384 + 695
 *        65       66,237      66,087    65,536 + 551
 *       258      263,290     263,140   262,144 + 996
 *
 * Padding hides neither that a message was sent nor when, and the bucket still distinguishes long from short messages.
 */
import { CELL_PAYLOAD_BYTES, SIGNATURE_BYTES, StaticError } from '@static/protocol'
import { TAG_BYTES } from './aead.ts'
import { lengthBytes } from './framing.ts'

const ENVELOPE_BYTES = 128
/** The bytes of a channel's message before its ciphertext's length, without authenticated data. */
const CHANNEL_HEAD_BYTES = 60

/** One of the sizes that messages are padded to. */
export interface Bucket {
  /** The number of cells its SendMessage and its DeliverMessage fill. */
  readonly cells: number
  /** The length of the whole MLSMessage. */
  readonly ciphertextBytes: number
}

/** All buckets, smallest first. The SDK's own messages use only the first one. */
export const BUCKETS: readonly Bucket[] = [2, 5, 17, 65, 258].map((cells) => ({
  cells,
  ciphertextBytes: cells * CELL_PAYLOAD_BYTES - ENVELOPE_BYTES,
}))

/** The cells of a channel's message with this many bytes of plaintext. */
export function cellsOf(plaintextBytes: number): number {
  const sealed = contentBytes(plaintextBytes, CHANNEL_HEAD_BYTES) + TAG_BYTES
  const bytes = CHANNEL_HEAD_BYTES + lengthBytes(sealed) + sealed
  return Math.ceil((bytes + ENVELOPE_BYTES) / CELL_PAYLOAD_BYTES)
}

/** The length of a channel's message with this many bytes of plaintext. */
export function ciphertextBytesOf(plaintextBytes: number): number {
  return cellsOf(plaintextBytes) * CELL_PAYLOAD_BYTES - ENVELOPE_BYTES
}

/**
 * The length of a PrivateMessageContent (plaintext, signature, zeros) that makes the message exactly as long as its
 * bucket. `headBytes` counts everything before the ciphertext's length.
 *
 * @throws {StaticError} `too_large` if no bucket is large enough
 */
export function contentBytes(plaintextBytes: number, headBytes: number): number {
  const needed = lengthBytes(plaintextBytes) + plaintextBytes + lengthBytes(SIGNATURE_BYTES) + SIGNATURE_BYTES
  for (const { ciphertextBytes } of BUCKETS) {
    const rest = ciphertextBytes - headBytes
    const sealed = ([1, 2, 4] as const).find((size) => lengthBytes(rest - size) === size)
    // For two values of `rest` no length prefix adds up; the next bucket is used instead.
    if (sealed !== undefined && rest - sealed - TAG_BYTES >= needed) return rest - sealed - TAG_BYTES
  }
  throw StaticError.of(
    'too_large',
    `The message is ${plaintextBytes} bytes before encryption, which is more than the largest bucket holds. ` +
      'Send what is larger as a file (`sendFile`).',
  )
}
