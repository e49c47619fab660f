/**
 * The proofs and signatures for invites (SPEC.md, "Invites"): a proof that a joiner holds a token, which the relay
 * checks without seeing the token, and the owner's signature on the list of invites that members may use, which the
 * relay never sees either.
 */
import type { ErrorCode } from '../errors/table.ts'
import { lengthPrefixed, signedBytes } from './layout.ts'

/** The codes with which a join request may be refused. A joiner hears any other reason as the first of them. */
export const JOIN_REFUSALS: readonly ErrorCode[] = [
  'invite_invalid',
  'invite_expired',
  'invite_used_up',
  'invite_revoked',
  'identity_changed',
  'group_full',
  'proof_required',
]

/** The fields of a joiner's proof. */
export interface JoinClaim {
  /** The relay's nonce of the session that carries the request, which makes the proof useless in any other session. */
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

/** The invites that members may use, as the owner signs them. */
export interface InviteListClaim {
  readonly channelId: Uint8Array
  /** The head when it was signed. */
  readonly slot: bigint
  readonly number: bigint
  readonly invites: readonly {
    readonly inviteId: Uint8Array
    /** Kmem. */
    readonly membersKey: Uint8Array
    readonly expiresAtMs: bigint
    readonly uses: bigint
  }[]
}

/** The bytes that the owner signs. */
export function inviteListBytes({ channelId, slot, number, invites }: InviteListClaim): Uint8Array<ArrayBuffer> {
  const items = invites.map((invite) => [invite.inviteId, invite.membersKey, invite.expiresAtMs, invite.uses])
  return signedBytes('static invites 1', [channelId, slot, number, items])
}
