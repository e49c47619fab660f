/**
 * The owner's list of the invites that members may use (SPEC.md, 6.5), as it travels in a frame and stays on disk. The
 * owner signs it, so any member can repeat it to a newcomer. An agent that has it can admit others but cannot ask to
 * join with it.
 *
 *     list: number(8), slot(8), invites(1), for each: id(16), Kmem(32), expiry(8), uses(4); the owner's signature(64)
 *     frame: slot of the counts(8), list, for each invite how many had joined with it at that slot(4)
 */
import { fromHex, inviteListBytes, SIGNATURE_BYTES, toHex } from '@static/protocol'
import { viewOf } from '../platform/bytes.ts'
import type { Time } from '../ports/index.ts'

/** The maximum number of open invites: the frame must fit into the smallest message, as control messages do. */
export const MOST_OPEN_INVITES = 16

export interface ListedInvite {
  /** Invite id, hexadecimal. */
  readonly id: string
  /** Kmem. */
  readonly members: Uint8Array
  readonly expiresAt: Time
  /** How many agents may join, including those whose use was returned. */
  readonly maxUses: number
}

/** The content that the owner signs. Of two lists, the one with the higher number counts. */
export interface InviteList {
  readonly number: number
  /** The number of commits when it was signed. A list from before a removal by the owner admits no one. */
  readonly slot: number
  readonly invites: readonly ListedInvite[]
}

/** How many agents had joined with an invite when the group was at a slot. */
export interface UseCount {
  readonly slot: number
  readonly count: number
}

const ID_BYTES = 16
const KEY_BYTES = 32
const COUNT_AT = 16
const HEAD_BYTES: number = COUNT_AT + 1
const INVITE_BYTES: number = ID_BYTES + KEY_BYTES + 8 + 4
const COUNT_BYTES = 4
const SLOT_BYTES = 8
/** The sender does not know the count. */
const UNKNOWN = 0xffff_ffff

/** The bytes that the owner signs. */
export function listBytes(channelId: Uint8Array, { number, slot, invites }: InviteList): Uint8Array {
  const claims = invites.map(({ id, members, expiresAt, maxUses }) => ({
    inviteId: fromHex(id),
    membersKey: members,
    expiresAtMs: BigInt(expiresAt),
    uses: BigInt(maxUses),
  }))
  return inviteListBytes({ channelId, slot: BigInt(slot), number: BigInt(number), invites: claims })
}

/** Encodes a list without its signature. */
export function encodeList({ number, slot, invites }: InviteList): Uint8Array {
  const bytes = new Uint8Array(HEAD_BYTES + invites.length * INVITE_BYTES)
  const view = viewOf(bytes)
  view.setBigUint64(0, BigInt(number))
  view.setBigUint64(8, BigInt(slot))
  bytes[COUNT_AT] = invites.length
  let at = HEAD_BYTES
  for (const { id, members, expiresAt, maxUses } of invites) {
    bytes.set(fromHex(id), at)
    bytes.set(members, at + ID_BYTES)
    view.setBigUint64(at + ID_BYTES + KEY_BYTES, BigInt(expiresAt))
    view.setUint32(at + INVITE_BYTES - 4, maxUses)
    at += INVITE_BYTES
  }
  return bytes
}

/** Decodes a list followed by its signature; undefined for anything that an honest owner would not send. */
export function decodeList(bytes: Uint8Array): (InviteList & { readonly signature: Uint8Array }) | undefined {
  const view = viewOf(bytes)
  const length = bytes[COUNT_AT] ?? MOST_OPEN_INVITES + 1
  const end = HEAD_BYTES + length * INVITE_BYTES
  if (length > MOST_OPEN_INVITES || bytes.length !== end + SIGNATURE_BYTES) return undefined
  const number = Number(view.getBigUint64(0))
  const slot = Number(view.getBigUint64(8))
  const invites = Array.from({ length }, (_, n) => {
    const at = HEAD_BYTES + n * INVITE_BYTES
    return {
      id: toHex(bytes.subarray(at, at + ID_BYTES)),
      members: Uint8Array.from(bytes.subarray(at + ID_BYTES, at + ID_BYTES + KEY_BYTES)),
      expiresAt: Number(view.getBigUint64(at + ID_BYTES + KEY_BYTES)),
      maxUses: view.getUint32(at + INVITE_BYTES - 4),
    }
  })
  const numbers = [number, slot, ...invites.map(({ expiresAt }) => expiresAt)]
  if (!numbers.every(Number.isSafeInteger) || new Set(invites.map(({ id }) => id)).size !== length) return undefined
  return { number, slot, invites, signature: bytes.subarray(end) }
}

/** The payload of a frame with a signed list, and the counts as of a slot in the list's order. */
export function encodeListFrame(signed: Uint8Array, slot: number, counts: readonly (number | undefined)[]): Uint8Array {
  const bytes = new Uint8Array(SLOT_BYTES + signed.length + counts.length * COUNT_BYTES)
  const view = viewOf(bytes)
  view.setBigUint64(0, BigInt(slot))
  bytes.set(signed, SLOT_BYTES)
  for (const [n, count] of counts.entries())
    view.setUint32(SLOT_BYTES + signed.length + n * COUNT_BYTES, count ?? UNKNOWN)
  return bytes
}

/** Splits the payload of a frame; undefined if its length cannot be right. */
export function decodeListFrame(
  bytes: Uint8Array,
): { readonly signed: Uint8Array; readonly counts: readonly (UseCount | undefined)[] } | undefined {
  const view = viewOf(bytes)
  const length = bytes[SLOT_BYTES + COUNT_AT] ?? MOST_OPEN_INVITES + 1
  const end = SLOT_BYTES + HEAD_BYTES + length * INVITE_BYTES + SIGNATURE_BYTES
  if (length > MOST_OPEN_INVITES || bytes.length !== end + length * COUNT_BYTES) return undefined
  const slot = Number(view.getBigUint64(0))
  if (!Number.isSafeInteger(slot)) return undefined
  const counts = Array.from({ length }, (_, n) => {
    const count = view.getUint32(end + n * COUNT_BYTES)
    return count === UNKNOWN ? undefined : { slot, count }
  })
  return { signed: Uint8Array.from(bytes.subarray(SLOT_BYTES, end)), counts }
}

/** Counts in stored form, in the order of their list. */
export function encodeCounts(counts: readonly (UseCount | undefined)[]): Uint8Array {
  const bytes = new Uint8Array(counts.length * (SLOT_BYTES + COUNT_BYTES))
  const view = viewOf(bytes)
  for (const [n, known] of counts.entries()) {
    const at = n * (SLOT_BYTES + COUNT_BYTES)
    view.setBigUint64(at, BigInt(known?.slot ?? 0))
    view.setUint32(at + SLOT_BYTES, known?.count ?? UNKNOWN)
  }
  return bytes
}

export function decodeCounts(bytes: Uint8Array): readonly (UseCount | undefined)[] {
  const view = viewOf(bytes)
  return Array.from({ length: bytes.length / (SLOT_BYTES + COUNT_BYTES) }, (_, n) => {
    const at = n * (SLOT_BYTES + COUNT_BYTES)
    const count = view.getUint32(at + SLOT_BYTES)
    return count === UNKNOWN ? undefined : { slot: Number(view.getBigUint64(at)), count }
  })
}
