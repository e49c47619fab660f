/**
 * The contents of request and answer frames (SPEC.md, 5.1). Numbers are big-endian.
 *
 *     request:    the member asked(32; zeros: all), lifetime in ms(8), the payload
 *     answer:     request id(16), number(4), the payload
 *     answer_end: request id(16), number(4), status(1); 0: nothing, 1: the payload of the last answer,
 *                 2: an error: length of its code(1), code, text
 *     cancel:     request id(16)
 *     more:       request id(16), how many answers the asker has read(4)
 *     refused:    1 to 64 request ids(16 each)
 */
import { AGENT_ID_BYTES, fromHex, MAX_PAYLOAD_BYTES, MESSAGE_ID_BYTES, toHex } from '@static/protocol'
import { peerText } from '@static/node/peer-text'
import { concat, concatAll, latin1, utf8, utf8Text, viewOf } from '../../platform/bytes.ts'
import type { AgentId } from '../../ports/index.ts'

/** The largest payload of a request or an answer: that of a message, less the fields before it. */
export const MOST_ASK_BYTES: number = MAX_PAYLOAD_BYTES - 64
/** The longest lifetime of a request, in milliseconds: that of an entry at the relay. */
export const MOST_LIFETIME_MS: number = 7 * 24 * 3600 * 1000
/** Requests of one asker that a channel holds open, at each end. */
export const MOST_OPEN_ASKS = 256
/** Requests in one refusal: as many as fit into the smallest message. */
export const MOST_REFUSED = 64
/** Limits of an error's text: characters sent, and bytes accepted. */
const MOST_ERROR_CHARACTERS = 1000
const MOST_ERROR_BYTES = 4096
/** Limit of an error's code, in bytes. */
const MOST_CODE_BYTES = 64

const LIFETIME_AT = AGENT_ID_BYTES
const REQUEST_PAYLOAD_AT: number = LIFETIME_AT + 8
const NUMBER_AT = MESSAGE_ID_BYTES
const ANSWER_AT: number = NUMBER_AT + 4
const STATUS = { nothing: 0, payload: 1, error: 2 } as const

export interface AskBody {
  /** Undefined: all members. */
  readonly to: AgentId | undefined
  readonly lifetimeMs: number
  readonly payload: Uint8Array
}

/** The error that ends an answer. */
export interface AnswerError {
  readonly code: string
  readonly message: string
}

/** A decoded answer, or the end of one. */
export interface AnswerBody {
  readonly requestId: Uint8Array
  /** Its position among its sender's answers to this request, from 0. */
  readonly number: number
  /** Undefined for an end without content. */
  readonly content: { readonly payload: Uint8Array } | { readonly error: AnswerError } | undefined
}

export function encodeRequest({ to, lifetimeMs, payload }: AskBody): Uint8Array {
  const bytes = new Uint8Array(REQUEST_PAYLOAD_AT + payload.length)
  if (to !== undefined) bytes.set(fromHex(to), 0)
  viewOf(bytes).setBigUint64(LIFETIME_AT, BigInt(lifetimeMs))
  bytes.set(payload, REQUEST_PAYLOAD_AT)
  return bytes
}

/** Decodes a request. The payload is a view of the bytes. Returns undefined if it is malformed. */
export function decodeRequest(bytes: Uint8Array): AskBody | undefined {
  if (bytes.length < REQUEST_PAYLOAD_AT) return undefined
  const to = bytes.subarray(0, LIFETIME_AT)
  const lifetimeMs = Number(viewOf(bytes).getBigUint64(LIFETIME_AT))
  if (lifetimeMs < 1 || lifetimeMs > MOST_LIFETIME_MS) return undefined
  return {
    to: to.every((byte) => byte === 0) ? undefined : toHex(to),
    lifetimeMs,
    payload: bytes.subarray(REQUEST_PAYLOAD_AT),
  }
}

/** Encodes an answer that is not the last. */
export function encodeAnswer(requestId: Uint8Array, number: number, payload: Uint8Array): Uint8Array {
  return concat(headOf(requestId, number), payload)
}

/** Encodes the end of an answer. */
export function encodeAnswerEnd({ requestId, number, content }: AnswerBody): Uint8Array {
  const head = headOf(requestId, number)
  if (content === undefined) return concat(head, Uint8Array.of(STATUS.nothing))
  if ('payload' in content) return concat(head, Uint8Array.of(STATUS.payload), content.payload)
  const code = utf8(content.error.code).subarray(0, MOST_CODE_BYTES)
  const text = utf8(peerText(content.error.message, MOST_ERROR_CHARACTERS))
  return concat(head, Uint8Array.of(STATUS.error, code.length), code, text)
}

/** Decodes an answer or its end. The payload is a view of the bytes. Returns undefined if it is malformed. */
export function decodeAnswer(kind: 'answer' | 'answer_end', bytes: Uint8Array): AnswerBody | undefined {
  if (bytes.length < ANSWER_AT) return undefined
  const requestId = bytes.subarray(0, NUMBER_AT)
  const number = viewOf(bytes).getUint32(NUMBER_AT)
  if (kind === 'answer') return { requestId, number, content: { payload: bytes.subarray(ANSWER_AT) } }
  const rest = bytes.subarray(ANSWER_AT + 1)
  switch (bytes[ANSWER_AT]) {
    case STATUS.nothing:
      return rest.length === 0 ? { requestId, number, content: undefined } : undefined
    case STATUS.payload:
      return { requestId, number, content: { payload: rest } }
    case STATUS.error: {
      const error = decodeError(rest)
      return error && { requestId, number, content: { error } }
    }
    default:
      return undefined
  }
}

/** Encodes that the asker wants no more answers. */
export function encodeCancel(requestId: Uint8Array): Uint8Array {
  return Uint8Array.from(requestId)
}

/** The cancelled request; undefined if the frame is malformed. */
export function decodeCancel(bytes: Uint8Array): Uint8Array | undefined {
  return bytes.length === MESSAGE_ID_BYTES ? bytes : undefined
}

/** Encodes how many answers the asker has read. */
export function encodeMore(requestId: Uint8Array, read: number): Uint8Array {
  return headOf(requestId, read)
}

/** Decodes how many answers the asker has read; undefined if the frame is malformed. */
export function decodeMore(bytes: Uint8Array): { readonly requestId: Uint8Array; readonly read: number } | undefined {
  if (bytes.length !== ANSWER_AT) return undefined
  return { requestId: bytes.subarray(0, NUMBER_AT), read: viewOf(bytes).getUint32(NUMBER_AT) }
}

/** Encodes which requests a member refuses. */
export function encodeRefused(requestIds: readonly Uint8Array[]): Uint8Array {
  return concatAll(requestIds)
}

/** The requests that a member refuses; undefined if the frame is malformed. */
export function decodeRefused(bytes: Uint8Array): readonly Uint8Array[] | undefined {
  const count = bytes.length / MESSAGE_ID_BYTES
  if (!Number.isInteger(count) || count < 1 || count > MOST_REFUSED) return undefined
  return Array.from({ length: count }, (_, at) => bytes.subarray(at * MESSAGE_ID_BYTES, (at + 1) * MESSAGE_ID_BYTES))
}

function headOf(requestId: Uint8Array, number: number): Uint8Array {
  const head = new Uint8Array(ANSWER_AT)
  head.set(requestId, 0)
  viewOf(head).setUint32(NUMBER_AT, number)
  return head
}

/** Cuts code and text to one line of bounded length, since people and language models read them. */
function decodeError(bytes: Uint8Array): AnswerError | undefined {
  const length = bytes[0] ?? 0
  if (length === 0 || length > MOST_CODE_BYTES || bytes.length < 1 + length) return undefined
  const code = latin1(bytes.subarray(1, 1 + length))
  if (!/^[a-z][a-z0-9_]*$/.test(code)) return undefined
  const text = bytes.subarray(1 + length)
  if (text.length > MOST_ERROR_BYTES) return undefined
  const message = utf8Text(text)
  return { code, message: peerText(message, MOST_ERROR_CHARACTERS) }
}
