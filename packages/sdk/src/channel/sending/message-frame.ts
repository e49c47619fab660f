/**
 * The plaintext frame inside every encrypted application message (SPEC.md, 5.1). It repeats the message's metadata
 * where the relay cannot change it, so members can detect a relay that drops, repeats, reorders or reassigns messages.
 *
 *     version(1) = 1, kind(1), message id(16), counter(8), hash of the sender's previous frame(32),
 *     seen: index(8), hash(32); the payload to the end
 */
import { HASH_BYTES, MESSAGE_ID_BYTES } from '@static/protocol'
import { viewOf } from '../../platform/bytes.ts'
import { decodeDecision } from '../../approvals/decision.ts'
import { decodeApproval } from '../../approvals/request.ts'
import { decodeFile } from '../../files/file-frame.ts'
import { decodePack, hasPartRoom } from './pack.ts'

/** The version written by this agent. */
export const VERSION = 1
const ID_AT = 2
const COUNTER_AT: number = ID_AT + MESSAGE_ID_BYTES
const PREVIOUS_AT: number = COUNTER_AT + 8
const SEEN_INDEX_AT: number = PREVIOUS_AT + HASH_BYTES
const SEEN_HASH_AT: number = SEEN_INDEX_AT + 8
const PAYLOAD_AT: number = SEEN_HASH_AT + HASH_BYTES
/** The bytes of a frame besides its payload. */
export const FRAME_HEAD_BYTES: number = PAYLOAD_AT

/**
 * The purpose of a message. `messages()` returns only payloads, alone or from a pack, and the texts of files.
 */
const KINDS = {
  payload: 0,
  heartbeat: 1,
  hello: 2,
  greeting: 3,
  request: 4,
  answer: 5,
  answer_end: 6,
  cancel: 7,
  more: 8,
  invites: 9,
  claim: 10,
  pack: 11,
  prove: 12,
  proof: 13,
  file: 14,
  approval: 15,
  decision: 16,
  refused: 17,
} as const
export type FrameKind = keyof typeof KINDS
const NAMES: ReadonlyMap<number | undefined, FrameKind> = new Map(
  (Object.keys(KINDS) as readonly FrameKind[]).map((kind) => [KINDS[kind], kind]),
)

const CONTROL: ReadonlySet<FrameKind> = new Set([
  'heartbeat',
  'hello',
  'greeting',
  'invites',
  'claim',
  'prove',
  'proof',
  'refused',
])

/** Whether the agent sends frames of this kind on its own. All others are charged like payloads. */
export function isControl(kind: FrameKind): boolean {
  return CONTROL.has(kind)
}

/** A position in the log and the hash chain at that position. */
export interface Seen {
  readonly index: number
  readonly hash: Uint8Array
}

/** The plaintext of a message. */
export interface Frame {
  /** Undefined for an unknown kind or version: the frame is ignored. */
  readonly kind: FrameKind | undefined
  readonly messageId: Uint8Array
  readonly counter: number
  /** SHA-256 of the sender's previous frame in this channel; zeros before the first. */
  readonly previous: Uint8Array
  /** The last entry the sender had processed. */
  readonly seen: Seen
  readonly payload: Uint8Array
}

export interface DecodedFrame extends Frame {
  /** In a version unknown to this agent, all fields before the payload have the same positions as in this one. */
  readonly version: number
}

export function encodeFrame(frame: Frame & { readonly kind: FrameKind }): Uint8Array {
  const bytes = new Uint8Array(PAYLOAD_AT + frame.payload.length)
  const view = viewOf(bytes)
  bytes[0] = VERSION
  bytes[1] = KINDS[frame.kind]
  bytes.set(frame.messageId, ID_AT)
  view.setBigUint64(COUNTER_AT, BigInt(frame.counter))
  bytes.set(frame.previous, PREVIOUS_AT)
  view.setBigUint64(SEEN_INDEX_AT, BigInt(frame.seen.index))
  bytes.set(frame.seen.hash, SEEN_HASH_AT)
  bytes.set(frame.payload, PAYLOAD_AT)
  return bytes
}

/** Decodes a frame. Its fields are views of the bytes. Returns undefined if it is malformed. */
export function decodeFrame(bytes: Uint8Array): DecodedFrame | undefined {
  const [version] = bytes
  if (bytes.length < PAYLOAD_AT || version === undefined || version < VERSION) return undefined
  const view = viewOf(bytes)
  const counter = Number(view.getBigUint64(COUNTER_AT))
  const index = Number(view.getBigUint64(SEEN_INDEX_AT))
  if (!Number.isSafeInteger(counter) || !Number.isSafeInteger(index)) return undefined
  const kind = version === VERSION ? NAMES.get(bytes[1]) : undefined
  const messageId = bytes.subarray(ID_AT, COUNTER_AT)
  const payload = bytes.subarray(PAYLOAD_AT)
  const isDelivered = kind === 'payload' || kind === 'pack' || kind === 'file'
  if (isDelivered && !hasPartRoom(messageId)) return undefined
  if (kind === 'pack' && !decodePack(payload)) return undefined
  if (kind === 'file' && !decodeFile(payload)) return undefined
  if (kind === 'approval' && !decodeApproval(payload)) return undefined
  if (kind === 'decision' && !decodeDecision(payload)) return undefined
  return {
    version,
    kind,
    messageId,
    counter,
    previous: bytes.subarray(PREVIOUS_AT, SEEN_INDEX_AT),
    seen: { index, hash: bytes.subarray(SEEN_HASH_AT, PAYLOAD_AT) },
    payload,
  }
}
