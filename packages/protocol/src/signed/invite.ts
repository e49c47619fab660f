/** What the relay checks of an invite: that a joiner holds the token (SPEC.md, "Invites"). The token itself it never sees. */
import { lengthPrefixed } from './layout.ts'

/** What a joiner proves, and to whom. */
export interface JoinClaim {
  /** The relay's nonce of the session that the request comes by, so that a proof is of no use elsewhere. */
  readonly sessionNonce: Uint8Array
  readonly inviteId: Uint8Array
  readonly agentId: Uint8Array
  /** SHA-256 of the box. */
  readonly boxHash: Uint8Array
}

/** The bytes under the proof of a join request, HMAC(Kadm, …). */
export function joinProofBytes(claim: JoinClaim): Uint8Array<ArrayBuffer> {
  return lengthPrefixed(['static join 1', claim.sessionNonce, claim.inviteId, claim.agentId, claim.boxHash])
}
