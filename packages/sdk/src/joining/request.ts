/**
 * The sealed content of a join request (SPEC.md, 6.3): nonce(16), tag(32), then the KeyPackage. If the owner asks for a
 * proof, the KeyPackage is behind its length(2), and after it come the length(2) of the proof, the proof, if the joiner
 * shows one, and zeros: the relay, which sees how long a box is, does not learn whose proof may be in it.
 */
import { sameBytes } from '#platform/crypto'
import { fromHex, message } from '@static/protocol'
import {
  type AnswerJoinRequest,
  AnswerJoinRequestSchema,
  type RequestJoinRequest,
  RequestJoinRequestSchema,
} from '@static/protocol/relay'
import type { MlsEngine } from '../mls/index.ts'
import { concat, viewOf } from '../platform/bytes.ts'
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
import { MAX_PROOF_BYTES } from '../proofs/proof.ts'
import { openProofBox, sealProofBox } from './proof-box.ts'

export const JOIN_NONCE_BYTES = 16
const TAG_BYTES = 32
const LENGTH_BYTES = 2

/** The content of a join request, as the owner reads it. */
export interface JoinRequest {
  readonly nonce: Uint8Array
  readonly keyPackage: Uint8Array
  /** What the joiner shows. Not checked. */
  readonly proof?: Uint8Array
}

type Hpke = Pick<MlsEngine, 'hpkeSeal' | 'hpkeOpen'>

/** What a request is for, and the agent that makes it. */
export interface ProvingPlace {
  readonly keys: AdmitKeys
  readonly place: JoinPlace
  /** The joiner. */
  readonly agentId: Uint8Array
}

export function sealRequest(keys: AdmitKeys, place: JoinPlace, { nonce, keyPackage }: JoinRequest): Uint8Array {
  return sealBox(keys, concat(nonce, joinTag(keys, place, nonce, keyPackage), keyPackage))
}

/** The same for an owner that asks for a proof, encrypted to its key. */
export async function sealProvingRequest(
  engine: Hpke,
  { keys, place, agentId }: ProvingPlace,
  boxKey: Uint8Array,
  { nonce, keyPackage, proof = new Uint8Array() }: JoinRequest,
): Promise<Uint8Array> {
  const length = Uint8Array.of(keyPackage.length >>> 8, keyPackage.length & 0xff)
  const shown = new Uint8Array(LENGTH_BYTES + MAX_PROOF_BYTES)
  viewOf(shown).setUint16(0, proof.length)
  shown.set(proof, LENGTH_BYTES)
  const content = concat(nonce, joinTag(keys, place, nonce, keyPackage), length, keyPackage, shown)
  return await sealProofBox(engine, { keys, agentId }, boxKey, content)
}

/** What the record of a join says that a request is for. */
export function placeOf({ channel, name, owner }: AttemptRecord): JoinPlace {
  return { channelId: fromHex(channel), name, owner: fromHex(owner) }
}

/** The request that a joiner sends to the relay. It is valid in one session. An empty box asks for the box key. */
export function requestOf(
  keys: InviteKeys,
  box: Uint8Array,
  { nonce: sessionNonce }: SessionInfo,
  agent: AgentId,
): RequestJoinRequest {
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

/** The same for a request that was encrypted to this agent's key. */
export async function openProvingRequest(
  engine: Hpke,
  { keys, place, agentId }: ProvingPlace,
  boxSecret: Uint8Array,
  box: Uint8Array,
): Promise<JoinRequest | undefined> {
  const opened = await openProofBox(engine, { keys, agentId }, boxSecret, box)
  const keyPackageAt = JOIN_NONCE_BYTES + TAG_BYTES + LENGTH_BYTES
  if (!opened || opened.length <= keyPackageAt) return undefined
  const nonce = opened.slice(0, JOIN_NONCE_BYTES)
  const tag = opened.subarray(JOIN_NONCE_BYTES, JOIN_NONCE_BYTES + TAG_BYTES)
  const end = keyPackageAt + viewOf(opened).getUint16(keyPackageAt - LENGTH_BYTES)
  const proofAt = end + LENGTH_BYTES
  if (opened.length !== proofAt + MAX_PROOF_BYTES) return undefined
  const proofEnd = proofAt + viewOf(opened).getUint16(end)
  if (proofEnd > opened.length || opened.subarray(proofEnd).some((byte) => byte !== 0)) return undefined
  const keyPackage = opened.slice(keyPackageAt, end)
  if (!sameBytes(tag, joinTag(keys, place, nonce, keyPackage))) return undefined
  return proofEnd === proofAt ? { nonce, keyPackage } : { nonce, keyPackage, proof: opened.slice(proofAt, proofEnd) }
}
