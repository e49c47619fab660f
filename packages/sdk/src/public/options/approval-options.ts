/** What `Channel.requestApproval` takes, and how it is checked. */
import { StaticError } from '@static/protocol'
import {
  MOST_ACTION_BYTES,
  MOST_DECIDERS,
  MOST_RISK_BYTES,
  MOST_TEXT_BYTES,
  MOST_TITLE_BYTES,
} from '../../approvals/request.ts'
import { MOST_WAIT_MS } from '../../channel/approving/approvals.ts'
import { jsonText, payloadBytes } from '../../channel/sending/payload.ts'
import type { Rule } from '../../proofs/rules.ts'

/** What people are asked to approve. */
export interface ApprovalWish {
  /** One line, at most 200 bytes. */
  readonly title: string
  /** What people should know, at most 16,384 bytes. Nothing ties it to the action. Default: none. */
  readonly text?: string
  /** How bad it could be, in your words, at most 1,024 bytes. Default: none. */
  readonly risk?: string
  /**
   * What you will execute, at most 32,768 bytes: bytes or a string as they are, any other value as JSON, serialized
   * once. Deciders sign exactly these bytes, and you get them back.
   */
  readonly action: unknown
}

/** Options of `Channel.requestApproval`. */
export interface ApprovalOptions {
  /**
   * Who may decide, at most 32 members: agent ids, identities that only one member has, or rules (see
   * `InviteOptions.require`), which stand for the members whose checked proofs satisfy them now.
   */
  readonly from: readonly (string | Rule)[]
  /** How many of them must approve. */
  readonly need: number
  /** How long they have, in seconds, at most 604,800 (a week). Default: 900. */
  readonly timeout?: number
  /** Called with the id of the approval once the relay has stored the request. */
  readonly asked?: (id: string) => void
  /** Ends the wait when it is aborted. The request stays open until its deadline. */
  readonly signal?: AbortSignal
}

/** Options of `Approval.decide`. */
export interface DecideOptions {
  /** Whether a passphrase was typed for this decision. The record says so; it is this program's word. Default: false. */
  readonly attended?: boolean
}

const MS = 1000
const TIMEOUT = 900

/** @internal The words and the action of a request, checked. */
export function wishOf({ title, text = '', risk = '', action }: ApprovalWish): {
  readonly title: string
  readonly text: string
  readonly risk: string
  readonly action: Uint8Array
} {
  checkWords('title', title, MOST_TITLE_BYTES)
  checkWords('text', text, MOST_TEXT_BYTES)
  checkWords('risk', risk, MOST_RISK_BYTES)
  if (title === '') throw StaticError.of('invalid_request', '`title` is empty. Say in a line what is to be approved.')
  return { title, text, risk, action: actionBytes(action) }
}

/** @internal The bytes of an action. */
export function actionBytes(action: unknown): Uint8Array {
  const isPlain = typeof action === 'string' || ArrayBuffer.isView(action)
  const bytes = payloadBytes(isPlain ? action : jsonText(action), MOST_ACTION_BYTES)
  if (bytes.length === 0) throw StaticError.of('invalid_request', '`action` is empty. It must say what is executed.')
  return bytes
}

/** @internal How many must approve, and how long they have. */
export function countsOf(
  { need, timeout = TIMEOUT }: Pick<ApprovalOptions, 'need' | 'timeout'>,
  deciders: number,
): { readonly need: number; readonly waitMs: number } {
  if (deciders > MOST_DECIDERS)
    throw StaticError.of('invalid_request', `\`from\` names ${deciders} members; the limit is ${MOST_DECIDERS}.`)
  if (!Number.isSafeInteger(need) || need < 1 || need > deciders)
    throw StaticError.of(
      'invalid_request',
      `\`need\` is ${need}. It must be a whole number from 1 to ${deciders}, the number of members that may decide.`,
    )
  const waitMs = Math.round(timeout * MS)
  if (waitMs >= MS && waitMs <= MOST_WAIT_MS) return { need, waitMs }
  throw StaticError.of(
    'invalid_request',
    `\`timeout\` is ${timeout}. It must be a number of seconds from 1 to ${MOST_WAIT_MS / MS}.`,
  )
}

function checkWords(option: 'title' | 'text' | 'risk', value: unknown, most: number): void {
  if (typeof value !== 'string') throw StaticError.of('invalid_request', `\`${option}\` must be a string.`)
  // A lone surrogate has no UTF-8 encoding.
  if (!value.isWellFormed()) throw StaticError.of('invalid_request', `\`${option}\` is not valid Unicode.`)
  const { length } = new TextEncoder().encode(value)
  if (length > most) throw StaticError.of('too_large', `\`${option}\` has ${length} bytes; the limit is ${most}.`)
}
