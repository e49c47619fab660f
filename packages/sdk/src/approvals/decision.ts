/**
 * A decision on a request (SPEC.md, 5.11), signed with the decider's own key, so that it can be checked without the
 * channel:
 *
 *     SHA-256 of the request(32), choice(1): 1 approve, 2 deny; time(8), attended(1): 0 or 1; signature(64)
 */
import { ed25519, type Signer } from '#platform/crypto'
import { fromHex, HASH_BYTES, SIGNATURE_BYTES, signedBytes } from '@static/protocol'
import { concat, viewOf } from '../platform/bytes.ts'
import type { AgentId, Time } from '../ports/index.ts'

export type Choice = 'approve' | 'deny'

export interface Decision {
  /** SHA-256 of the request. */
  readonly hash: Uint8Array
  readonly choice: Choice
  /** By the decider's clock. */
  readonly time: Time
  /** Whether a passphrase was typed for this decision, as the decider's program says. */
  readonly attended: boolean
}

export interface SignedDecision extends Decision {
  readonly signature: Uint8Array
}

const CHOICES: readonly (Choice | undefined)[] = [undefined, 'approve', 'deny']
const CHOICE_AT = HASH_BYTES
const TIME_AT = CHOICE_AT + 1
const ATTENDED_AT = TIME_AT + 8
const SIGNATURE_AT = ATTENDED_AT + 1
export const DECISION_BYTES: number = SIGNATURE_AT + SIGNATURE_BYTES

/** Signs a decision. `sign` is with the key of the decider. */
export function makeDecision(decision: Decision, decider: AgentId, sign: Signer): Uint8Array<ArrayBuffer> {
  return encodeDecision({ ...decision, signature: sign(decisionBytes(decision, decider)) })
}

export function encodeDecision({ hash, choice, time, attended, signature }: SignedDecision): Uint8Array<ArrayBuffer> {
  const middle = new Uint8Array(SIGNATURE_AT - CHOICE_AT)
  middle[0] = CHOICES.indexOf(choice)
  viewOf(middle).setBigUint64(TIME_AT - CHOICE_AT, BigInt(time))
  middle[ATTENDED_AT - CHOICE_AT] = attended ? 1 : 0
  return concat(hash, middle, signature)
}

/** Decodes a decision, whose signature is not checked. Bytes are views. Undefined if it is malformed. */
export function decodeDecision(bytes: Uint8Array): SignedDecision | undefined {
  const choice = CHOICES[bytes[CHOICE_AT] ?? 0]
  const flag = bytes[ATTENDED_AT]
  if (bytes.length !== DECISION_BYTES || choice === undefined || flag === undefined || flag > 1) return undefined
  const time = Number(viewOf(bytes).getBigUint64(TIME_AT))
  if (!Number.isSafeInteger(time)) return undefined
  const [hash, signature] = [bytes.subarray(0, CHOICE_AT), bytes.subarray(SIGNATURE_AT)]
  return { hash, choice, time, attended: flag === 1, signature }
}

/** Whether the agent with this key has signed the decision. */
export function isDecisionOf(decision: SignedDecision, decider: AgentId, publicKey: Uint8Array): boolean {
  return ed25519.verifier(publicKey)(decisionBytes(decision, decider), decision.signature)
}

function decisionBytes({ hash, choice, time, attended }: Decision, decider: AgentId): Uint8Array {
  const flag = attended ? 1n : 0n
  return signedBytes('static decision 1', [hash, fromHex(decider), BigInt(CHOICES.indexOf(choice)), BigInt(time), flag])
}
