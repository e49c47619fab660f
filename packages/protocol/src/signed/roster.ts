/**
 * The statements about members that the owner of a channel signs (SPEC.md, "Operations"): a vouch, and a reset of the
 * roster.
 */
import { signedBytes } from './layout.ts'
import { ALPN } from './session.ts'

/** The members that the owner vouches for. */
export interface VouchClaim {
  readonly channelId: Uint8Array
  /** The head: the claim becomes useless after the next commit. */
  readonly slot: bigint
  /** In the order in which they are sent. */
  readonly agentIds: readonly Uint8Array[]
}

/** The members of the group at a position in the log. */
export interface RosterClaim extends VouchClaim {
  readonly index: bigint
  /** The chain at that index. */
  readonly hash: Uint8Array
  /** The agents among them that the owner vouches for, in the order in which they are sent. */
  readonly vouched: readonly Uint8Array[]
}

/** The bytes that the owner signs to vouch for members. */
export function vouchBytes({ channelId, slot, agentIds }: VouchClaim): Uint8Array<ArrayBuffer> {
  return signedBytes(`${ALPN} vouch`, [channelId, slot, agentIds])
}

/** The bytes that the owner signs to reset the relay's roster. */
export function rosterBytes(claim: RosterClaim): Uint8Array<ArrayBuffer> {
  const { channelId, slot, index, hash, agentIds, vouched } = claim
  return signedBytes(`${ALPN} roster`, [channelId, slot, index, hash, agentIds, vouched])
}
