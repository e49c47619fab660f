/** The sealed content of a join request (SPEC.md, 6.3): nonce(16), tag(32), then the KeyPackage. */
import { sameBytes } from '#platform/crypto'
import { fromHex, message } from '@static/protocol'
import {
  type AnswerJoinRequest,
  AnswerJoinRequestSchema,
  type RequestJoinRequest,
  RequestJoinRequestSchema,
} from '@static/protocol/relay'
import { concat } from '../platform/bytes.ts'
import type { AgentId, AttemptRecord, SessionInfo } from '../ports/index.ts'
import {
  admissionProof,
  type AdmitKeys,
  type InviteKeys,
  type JoinPlace,
  joinTag,
  sealBox,
  openBox,
} from '../admitting/keys.ts'

export const JOIN_NONCE_BYTES = 16
const TAG_BYTES = 32

/** The content of a join request, as the owner reads it. */
export interface JoinRequest {
  readonly nonce: Uint8Array
  readonly keyPackage: Uint8Array
}

export function sealRequest(keys: AdmitKeys, place: JoinPlace, { nonce, keyPackage }: JoinRequest): Uint8Array {
  return sealBox(keys, concat(nonce, joinTag(keys, place, nonce, keyPackage), keyPackage))
}

/** The request that a joiner sends to the relay. It is valid in one session. */
export function requestOf(
  keys: InviteKeys,
  record: AttemptRecord,
  { nonce: sessionNonce }: SessionInfo,
  agent: AgentId,
): RequestJoinRequest {
  const place = { channelId: fromHex(record.channel), name: record.name, owner: fromHex(record.owner) }
  const box = sealRequest(keys, place, record)
  const proof = admissionProof(keys, { sessionNonce, agentId: fromHex(agent), box })
  return message(RequestJoinRequestSchema, { inviteId: keys.inviteId, box, proof })
}

/** The message with which a joiner withdraws its request. */
export function withdrawalOf({ inviteId }: InviteKeys, agent: AgentId): AnswerJoinRequest {
  return message(AnswerJoinRequestSchema, { inviteId, agentId: fromHex(agent), code: 'invite_invalid' })
}

/** Opens and checks a request; undefined if its sender does not have the token or it is for another channel. */
export function openRequest(keys: AdmitKeys, place: JoinPlace, box: Uint8Array): JoinRequest | undefined {
  const opened = openBox(keys, box)
  if (!opened || opened.length <= JOIN_NONCE_BYTES + TAG_BYTES) return undefined
  const nonce = opened.slice(0, JOIN_NONCE_BYTES)
  const tag = opened.subarray(JOIN_NONCE_BYTES, JOIN_NONCE_BYTES + TAG_BYTES)
  const keyPackage = opened.slice(JOIN_NONCE_BYTES + TAG_BYTES)
  return sameBytes(tag, joinTag(keys, place, nonce, keyPackage)) ? { nonce, keyPackage } : undefined
}
