/** What the owner of a channel signs about its members (SPEC.md, "Operations"): a vouch, and a reset of the roster. */
import { signedBytes } from './layout.ts'
import { ALPN } from './session.ts'

/** For which members the owner vouches. */
export interface VouchClaim {
  readonly channelId: Uint8Array
  /** The head: the claim is of no use after the next commit. */
  readonly slot: bigint
  /** In the order in which they are sent. */
  readonly agentIds: readonly Uint8Array[]
}

/** Who is in the group, and at which place of the log. */
export interface RosterClaim extends VouchClaim {
  readonly index: bigint
  /** The chain at that index. */
  readonly hash: Uint8Array
  /** Those of the agents that the owner vouches for, in the order in which they are sent. */
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
