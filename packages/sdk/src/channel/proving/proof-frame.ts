/**
 * What frames of the kinds `proof` and `prove` have in place of a payload (SPEC.md, 5.1): the place for which a proof is
 * shown (8) and the proof; the agent that is to show one (32).
 */
import { AGENT_ID_BYTES, fromHex, toHex } from '@static/protocol'
import { concat, viewOf } from '../../platform/bytes.ts'
import type { AgentId } from '../../ports/index.ts'
import { MAX_PROOF_BYTES } from '../../proofs/proof.ts'

const PLACE_BYTES = 8

/** A proof, shown in a frame. */
export interface ShownProof {
  /** The index of the entry that added the agent, as it says. */
  readonly place: number
  readonly proof: Uint8Array
}

export function encodeShown({ place, proof }: ShownProof): Uint8Array {
  const head = new Uint8Array(PLACE_BYTES)
  viewOf(head).setBigUint64(0, BigInt(place))
  return concat(head, proof)
}

/** The proof in a frame; undefined if it is none. */
export function decodeShown(payload: Uint8Array): ShownProof | undefined {
  const length = payload.length - PLACE_BYTES
  if (length < 1 || length > MAX_PROOF_BYTES) return undefined
  const place = Number(viewOf(payload).getBigUint64(0))
  return Number.isSafeInteger(place) ? { place, proof: payload.slice(PLACE_BYTES) } : undefined
}

export function encodeAsked(agent: AgentId): Uint8Array {
  return fromHex(agent)
}

/** The agent that is asked for a proof. */
export function decodeAsked(payload: Uint8Array): AgentId | undefined {
  return payload.length === AGENT_ID_BYTES ? toHex(payload) : undefined
}
