/**
 * A request with its decisions, as a file that anyone can check without the channel: one line of JSON with the bytes
 * that were hashed and signed, and the key of each decider.
 */
import { sha256 } from '#platform/crypto'
import { StaticError, toHex } from '@static/protocol'
import { fromBase64url, same, toBase64url } from '../platform/bytes.ts'
import type { AgentId, Time } from '../ports/index.ts'
import { decodeDecision, isDecisionOf, type SignedDecision } from './decision.ts'
import { type ApprovalRequest, approvalHash, decodeApproval, MOST_DECIDERS } from './request.ts'

/** A record with texts and decisions of the longest kind is shorter. */
export const MOST_RECORD_BYTES = 131_072
const VERSION = 1

/** A decision as it was signed, and the key that signed it. */
export interface KeyedDecision {
  readonly publicKey: Uint8Array
  readonly decision: Uint8Array
}

/** What the one who checks expects. Nothing of it is taken from the record. */
export interface Expected {
  readonly from: readonly AgentId[]
  readonly need: number
  readonly action: Uint8Array
}

export interface CheckedRecord {
  readonly hash: Uint8Array
  readonly request: ApprovalRequest
  /** The expected agents that approved. */
  readonly approvals: readonly { readonly agent: AgentId; readonly time: Time; readonly attended: boolean }[]
}

export function encodeRecord(request: Uint8Array, decisions: readonly KeyedDecision[]): string {
  const shown = decisions.map(({ publicKey, decision }) => ({
    key: toBase64url(publicKey),
    decision: toBase64url(decision),
  }))
  return `${JSON.stringify({ static_approval: VERSION, request: toBase64url(request), decisions: shown })}\n`
}

/**
 * Checks that a record permits an action: enough of the expected agents have approved a request for exactly these
 * bytes, in which they were asked, before its deadline.
 *
 * @throws {StaticError} `invalid_request` if it is not a record, `not_allowed` with the first thing that is missing
 */
export function checkRecord(text: string, { from, need, action }: Expected): CheckedRecord {
  const { bytes, request, decisions } = decodeRecord(text)
  const hash = approvalHash(bytes)
  if (!same(request.action, action))
    throw denied(`It is for another action: SHA-256 ${toHex(sha256(request.action))}, not ${toHex(sha256(action))}.`)
  const approvals = new Map<AgentId, { agent: AgentId; time: Time; attended: boolean }>()
  const refused = new Set<AgentId>()
  for (const { publicKey, decision } of decisions) {
    const agent = toHex(sha256(publicKey))
    const isValid =
      same(decision.hash, hash) && decision.time < request.deadline && isDecisionOf(decision, agent, publicKey)
    if (!isValid) throw denied(`The decision of agent ${agent} is not valid: it was changed, or belongs elsewhere.`)
    if (!request.from.includes(agent) || !from.includes(agent)) continue
    const { time, attended } = decision
    if (decision.choice === 'deny') refused.add(agent)
    else if (!approvals.has(agent)) approvals.set(agent, { agent, time, attended })
  }
  // One that has signed both has not approved.
  for (const agent of refused) approvals.delete(agent)
  // The asker may have asked for more than the checker expects.
  const least = Math.max(need, request.need)
  if (approvals.size < least)
    throw denied(`${approvals.size} of the expected agents have approved; ${least} are needed.`)
  return { hash, request, approvals: [...approvals.values()] }
}

function decodeRecord(text: string): {
  bytes: Uint8Array
  request: ApprovalRequest
  decisions: readonly { readonly publicKey: Uint8Array; readonly decision: SignedDecision }[]
} {
  const { static_approval: version, request, decisions } = parsed(text)
  const bytes = bytesOf(request)
  const decoded = bytes && decodeApproval(bytes)
  if (version !== VERSION || !decoded || !Array.isArray(decisions) || decisions.length > MOST_DECIDERS)
    throw malformed()
  const read = decisions.map((each: unknown) => {
    const { key, decision } = isObject(each) ? each : {}
    const [publicKey, signed] = [bytesOf(key), bytesOf(decision)]
    const found = signed && decodeDecision(signed)
    if (publicKey?.length !== KEY_BYTES || !found) throw malformed()
    return { publicKey, decision: found }
  })
  return { bytes, request: decoded, decisions: read }
}

const KEY_BYTES = 32

function parsed(text: string): Readonly<Record<string, unknown>> {
  if (text.length > MOST_RECORD_BYTES) throw malformed()
  try {
    const value: unknown = JSON.parse(text)
    if (isObject(value)) return value
  } catch {
    // The same error as for other JSON.
  }
  throw malformed()
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function bytesOf(value: unknown): Uint8Array | undefined {
  return typeof value === 'string' ? fromBase64url(value) : undefined
}

function malformed(): StaticError {
  return StaticError.of(
    'invalid_request',
    'The file is not the record of an approval. `static channel request-approval --out FILE` writes one.',
  )
}

function denied(why: string): StaticError {
  return StaticError.of('not_allowed', `The record does not permit the action. ${why}`)
}
