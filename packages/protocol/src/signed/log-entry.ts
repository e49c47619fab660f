/**
 * A channel's log as its members verify it: the signed bytes and bodies of its entries, and the hash chain over them
 * (SPEC.md, "Log"). The chain exposes a relay that shows members different histories as soon as one of them receives a
 * message from the other; it cannot reveal that the last message was withheld.
 */
import { type Field, lengthPrefixed, signedBytes } from './layout.ts'
import { ALPN } from './session.ts'

/** SHA-256; this package contains no cryptography. */
export type Hash = (bytes: Uint8Array) => Uint8Array

/** A notice that an agent has left. */
export interface LeaveNoticeFields {
  readonly publicKey: Uint8Array
  readonly slot: bigint
  /** The encryption keys that the agent's leaf may have: one, or two while a commit of its own is unanswered. */
  readonly leafKeys: readonly Uint8Array[]
  readonly signature: Uint8Array
}

/** The maximum number of keys in a notice. */
export const MAX_LEAF_KEYS = 2

/** The effect of a commit on the roster. */
export interface DeclarationFields {
  readonly adds: readonly Uint8Array[]
  readonly removes: readonly Uint8Array[]
  readonly leaveNotices: readonly LeaveNoticeFields[]
  /** The agents in `adds` that the owner vouches for; empty in anyone else's commit. */
  readonly vouches: readonly Uint8Array[]
  /**
   * The channel's owner and standby (empty if there is none) after a commit that changes either. Both are empty in any
   * other commit.
   */
  readonly owner?: Uint8Array
  readonly standby?: Uint8Array
}

/** The commit that a declaration belongs to: it is not valid for another slot, channel or commit. */
export interface CommitPlace {
  readonly channelId: Uint8Array
  readonly slot: bigint
  readonly messageId: Uint8Array
  readonly commitHash: Uint8Array
}

/** The fields of an entry that the chain covers. */
export interface ChainEntry {
  readonly kind: 'message' | 'commit' | 'leave'
  /** Agent id. */
  readonly sender: Uint8Array
  /** Empty for a leave. */
  readonly messageId: Uint8Array
  /** SHA-256 of the body: of the ciphertext of a message, of `commitBody` or of `leaveBody`. */
  readonly bodyHash: Uint8Array
}

const NOTHING = new Uint8Array()

// As bytes, because every message goes into a chain at the relay and at each member.
const CHAIN: Uint8Array = utf8('static log 1')
const KINDS: Readonly<Record<ChainEntry['kind'], Uint8Array>> = {
  message: utf8('message'),
  commit: utf8('commit'),
  leave: utf8('leave'),
}

/**
 * The bytes that an agent signs to leave a channel. The keys bind them to its current leaf: once it has re-keyed or
 * returned, the signature no longer applies.
 */
export function leaveBytes(
  channelId: Uint8Array,
  { slot, leafKeys }: Pick<LeaveNoticeFields, 'slot' | 'leafKeys'>,
): Uint8Array<ArrayBuffer> {
  return signedBytes(`${ALPN} leave`, [channelId, slot, leafKeys])
}

/** The bytes that the sender of a commit signs to declare its effect on the roster. */
export function declarationBytes(place: CommitPlace, declaration: DeclarationFields): Uint8Array<ArrayBuffer> {
  return signedBytes(`${ALPN} commit`, [
    place.channelId,
    place.slot,
    place.messageId,
    place.commitHash,
    ...rosterChange(declaration),
  ])
}

/** The body of a commit's entry: the commit and its signed declaration. */
export function commitBody(
  commit: Uint8Array,
  declaration: DeclarationFields & { readonly signature: Uint8Array },
): Uint8Array<ArrayBuffer> {
  return lengthPrefixed([commit, ...rosterChange(declaration), declaration.signature])
}

/** The body of a leave's entry: the signed notice. */
export function leaveBody(notice: LeaveNoticeFields): Uint8Array<ArrayBuffer> {
  return lengthPrefixed(noticeFields(notice))
}

/** h_0 of a channel, before its first entry. */
export function chainStart(hash: Hash, channelId: Uint8Array): Uint8Array {
  return hash(lengthPrefixed([CHAIN, channelId]))
}

/** h_i from h_{i−1} and the entry of index i. */
export function chainNext(hash: Hash, previous: Uint8Array, entry: ChainEntry): Uint8Array {
  return hash(lengthPrefixed([CHAIN, previous, KINDS[entry.kind], entry.sender, entry.messageId, entry.bodyHash]))
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

function rosterChange({ adds, removes, leaveNotices, vouches, owner, standby }: DeclarationFields): Field[] {
  return [adds, removes, leaveNotices.map(noticeFields), vouches, owner ?? NOTHING, standby ?? NOTHING]
}

function noticeFields({ publicKey, slot, leafKeys, signature }: LeaveNoticeFields): Field[] {
  return [publicKey, slot, leafKeys, signature]
}
