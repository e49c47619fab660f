/**
 * A receipt: how far a member has processed a channel's log, signed with the key of its leaf (SPEC.md, "Receipts"). It
 * travels with an acknowledgement, in a fixed form. A member can claim progress it has not made, but no one else can
 * claim it in its name.
 */
import { HASH_BYTES, SIGNATURE_BYTES } from '../wire/limits.ts'
import { signedBytes } from './layout.ts'
import { ALPN } from './session.ts'

/** The level that a member reports: nothing, what it has received, or also what its application has settled. */
export const RECEIPT_MODES: readonly ReceiptMode[] = ['off', 'delivered', 'settled']
/** The levels that an agent's receipts can report, lowest first. */
export type ReceiptMode = 'off' | 'delivered' | 'settled'

/** The content of a receipt. Indexes are positions in the log. */
export interface ReceiptClaim {
  readonly mode: ReceiptMode
  /** It has missed nothing after this index: its add, the end of a gap, or an entry that it could not decrypt. */
  readonly since: number
  /** The last entry that it has processed, and the chain there. */
  readonly index: number
  readonly hash: Uint8Array
  /** The last message put aside because its handler failed, which is not settled; 0: none, or another mode. */
  readonly aside: number
  /** Every payload after `aside` and up to here is settled; 0 unless the mode is `settled`. */
  readonly settled: number
}

/** A claim and the member's signature. */
export interface SignedReceipt extends ReceiptClaim {
  readonly signature: Uint8Array
}

const NUMBER_BYTES = 8
/** Mode, since, index, hash, aside, settled, signature. */
export const RECEIPT_BYTES: number = 1 + 4 * NUMBER_BYTES + HASH_BYTES + SIGNATURE_BYTES

/** The bytes that a member signs. */
export function receiptBytes(channelId: Uint8Array, claim: ReceiptClaim): Uint8Array<ArrayBuffer> {
  const { mode, since, index, hash, aside, settled } = claim
  const fields = [channelId, mode, BigInt(since), BigInt(index), hash, BigInt(aside), BigInt(settled)]
  return signedBytes(`${ALPN} receipt`, fields)
}

/** A receipt in its encoded form. */
export function encodeReceipt({ mode, since, index, hash, aside, settled, signature }: SignedReceipt): Uint8Array {
  const bytes = new Uint8Array(RECEIPT_BYTES)
  const view = new DataView(bytes.buffer)
  bytes[0] = RECEIPT_MODES.indexOf(mode)
  view.setBigUint64(1, BigInt(since))
  view.setBigUint64(9, BigInt(index))
  bytes.set(hash, 17)
  view.setBigUint64(17 + HASH_BYTES, BigInt(aside))
  view.setBigUint64(25 + HASH_BYTES, BigInt(settled))
  bytes.set(signature, 33 + HASH_BYTES)
  return bytes
}

/** Decodes a receipt; undefined for anything that an honest member would not send. Its signature is not checked. */
export function decodeReceipt(bytes: Uint8Array): SignedReceipt | undefined {
  const mode = RECEIPT_MODES[bytes[0] ?? RECEIPT_MODES.length]
  if (bytes.length !== RECEIPT_BYTES || mode === undefined) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const number = (at: number): number => Number(view.getBigUint64(at))
  const [since, index, aside, settled] = [number(1), number(9), number(17 + HASH_BYTES), number(25 + HASH_BYTES)]
  if (!Number.isSafeInteger(index) || Math.max(since, aside, settled) > index) return undefined
  if (mode !== 'settled' && (settled > 0 || aside > 0)) return undefined
  const hash = bytes.slice(17, 17 + HASH_BYTES)
  return { mode, since, index, hash, aside, settled, signature: bytes.slice(33 + HASH_BYTES) }
}
