/**
 * A pack: several payloads that travel as one message (SPEC.md, 5.1). Instead of the payload it has
 *
 *     2 to 16 times: length of a payload(4), the payload
 *
 * to the end, in at most 16,981 bytes, which with the rest of the frame fill 17 cells. Its payloads have no frames of
 * their own, so a pack cannot contain another pack, nor anything that an agent sends on its own. The id of a payload is
 * that of the pack with the payload's number in its last four bits, which are zero in the ids of all packs and payloads
 * that are sent.
 */
import { viewOf } from '../../platform/bytes.ts'

export const MOST_PARTS = 16
const FEWEST_PARTS = 2
export const MOST_PACK_BYTES = 16_981
/** The overhead of a payload, in bytes. */
export const PART_HEAD_BYTES = 4
const PART_BITS = 0x0f

export function encodePack(payloads: readonly Uint8Array[]): Uint8Array {
  const size = payloads.reduce((sum, { length }) => sum + PART_HEAD_BYTES + length, 0)
  const bytes = new Uint8Array(size)
  const view = viewOf(bytes)
  let at = 0
  for (const payload of payloads) {
    view.setUint32(at, payload.length)
    bytes.set(payload, at + PART_HEAD_BYTES)
    at += PART_HEAD_BYTES + payload.length
  }
  return bytes
}

/** The payloads of a pack, as views of its bytes; undefined if it is malformed. */
export function decodePack(bytes: Uint8Array): readonly Uint8Array[] | undefined {
  if (bytes.length > MOST_PACK_BYTES) return undefined
  const view = viewOf(bytes)
  const payloads: Uint8Array[] = []
  for (let at = 0; at < bytes.length;) {
    if (payloads.length === MOST_PARTS || at + PART_HEAD_BYTES > bytes.length) return undefined
    const start = at + PART_HEAD_BYTES
    at = start + view.getUint32(at)
    if (at > bytes.length) return undefined
    payloads.push(bytes.subarray(start, at))
  }
  return payloads.length < FEWEST_PARTS ? undefined : payloads
}

/** Whether a pack or a payload can have this message id, with room for the number of a payload. */
export function hasPartRoom(messageId: Uint8Array): boolean {
  return ((messageId.at(-1) ?? 0) & PART_BITS) === 0
}

/** The id of a payload of a pack. */
export function partId(packId: Uint8Array, part: number): Uint8Array {
  return withLast(packId, (packId.at(-1) ?? 0) | part)
}

/** The id of the message that carried a payload. */
export function packIdOf(messageId: Uint8Array): Uint8Array {
  return withLast(messageId, (messageId.at(-1) ?? 0) & ~PART_BITS)
}

function withLast(messageId: Uint8Array, byte: number): Uint8Array {
  const id = Uint8Array.from(messageId)
  id[id.length - 1] = byte
  return id
}
