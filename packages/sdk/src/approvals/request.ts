/**
 * What people are asked to approve (SPEC.md, 5.11). Deciders sign its hash, so they vouch for every byte of it: for the
 * action, and for who asks whom, in which channel and until when.
 *
 *     fields("static approval 1", channel id, asker, random id(16), deadline, need, [agent ids], title, text, risk,
 *     action)
 */
import { sha256 } from '#platform/crypto'
import { AGENT_ID_BYTES, CHANNEL_ID_BYTES, fromHex, lengthPrefixed, toHex } from '@static/protocol'
import { same, utf8 } from '../platform/bytes.ts'
import type { AgentId, Time } from '../ports/index.ts'
import { numberIn, readFields, textIn } from './fields.ts'

/** Limits, in bytes of UTF-8 or of the action. */
export const MOST_TITLE_BYTES = 200
export const MOST_TEXT_BYTES = 16_384
export const MOST_RISK_BYTES = 1024
export const MOST_ACTION_BYTES = 32_768
/** The most agents that one request can name. */
export const MOST_DECIDERS = 32
export const REQUEST_ID_BYTES = 16
/** Later times are no dates in other languages. */
const LATEST_TIME = Date.UTC(10_000, 0) - 1

const CONTEXT = 'static approval 1'
const FIELDS = 11

export interface ApprovalRequest {
  readonly channelId: Uint8Array
  readonly asker: AgentId
  /** Random, so that no two requests have the same hash. */
  readonly requestId: Uint8Array
  readonly deadline: Time
  /** How many of `from` must approve. */
  readonly need: number
  /** Who may decide: sorted, each once, without the asker. */
  readonly from: readonly AgentId[]
  /** The asker's words. Nothing ties them to the action. */
  readonly title: string
  readonly text: string
  readonly risk: string
  /** What is executed, to the byte. */
  readonly action: Uint8Array
}

/** Encodes a request, whose fields must be within the limits. */
export function encodeApproval(request: ApprovalRequest): Uint8Array<ArrayBuffer> {
  const { channelId, asker, requestId, deadline, need, from, title, text, risk, action } = request
  return lengthPrefixed([
    CONTEXT,
    channelId,
    fromHex(asker),
    requestId,
    BigInt(deadline),
    BigInt(need),
    from.map((agent) => fromHex(agent)),
    title,
    text,
    risk,
    action,
  ])
}

/** Decodes a request. Bytes are views. Returns undefined for anything that is not within the limits. */
export function decodeApproval(bytes: Uint8Array): ApprovalRequest | undefined {
  const fields = readFields(bytes, FIELDS)
  if (fields?.length !== FIELDS) return undefined
  const [context, channelId, asker, requestId, time, count, agents, ...rest] = fields
  const [titleBytes, textBytes, riskBytes, action] = rest
  if (!context || !channelId || !asker || !requestId || !time || !count || !agents) return undefined
  if (!titleBytes || !textBytes || !riskBytes || !action) return undefined
  if (!same(context, utf8(CONTEXT)) || channelId.length !== CHANNEL_ID_BYTES) return undefined
  if (asker.length !== AGENT_ID_BYTES || requestId.length !== REQUEST_ID_BYTES) return undefined
  if (action.length === 0 || action.length > MOST_ACTION_BYTES) return undefined
  const [deadline, need] = [numberIn(time), numberIn(count)]
  const from = decidersIn(agents, toHex(asker))
  if (deadline === undefined || deadline > LATEST_TIME || need === undefined || need < 1) return undefined
  if (!from || need > from.length) return undefined
  const title = textIn(titleBytes, MOST_TITLE_BYTES)
  const [text, risk] = [textIn(textBytes, MOST_TEXT_BYTES), textIn(riskBytes, MOST_RISK_BYTES)]
  if (!title || text === undefined || risk === undefined) return undefined
  return { channelId, asker: toHex(asker), requestId, deadline, need, from, title, text, risk, action }
}

/** What decisions name: SHA-256 of the encoded request. */
export function approvalHash(encoded: Uint8Array): Uint8Array {
  return sha256(encoded)
}

function decidersIn(bytes: Uint8Array, asker: AgentId): readonly AgentId[] | undefined {
  const fields = readFields(bytes, MOST_DECIDERS)
  if (!fields || fields.some(({ length }) => length !== AGENT_ID_BYTES)) return undefined
  const agents = fields.map(toHex)
  const isSorted = agents.every((agent, at) => at === 0 || (agents[at - 1] ?? '') < agent)
  return isSorted && !agents.includes(asker) ? agents : undefined
}
