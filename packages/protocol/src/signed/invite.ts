/** Proof that a joiner holds an invite token (SPEC.md, "Invites"). The relay checks it and never sees the token. */
import { lengthPrefixed } from './layout.ts'

/** The fields of a joiner's proof. */
export interface JoinClaim {
  /** The relay's nonce of the session that carries the request, so that the proof is useless in any other session. */
  readonly sessionNonce: Uint8Array
  readonly inviteId: Uint8Array
  readonly agentId: Uint8Array
  /** SHA-256 of the box. */
  readonly boxHash: Uint8Array
}

/** The input of the proof of a join request, HMAC(Kadm, …). */
export function joinProofBytes(claim: JoinClaim): Uint8Array<ArrayBuffer> {
  return lengthPrefixed(['static join 1', claim.sessionNonce, claim.inviteId, claim.agentId, claim.boxHash])
}
