/** What the owner of a channel signs to reset the relay's roster (SPEC.md, "Operations"). */
import { signedBytes } from './layout.ts'
import { ALPN } from './session.ts'

/** Who is in the group, and at which place of the log. */
export interface RosterClaim {
  readonly channelId: Uint8Array
  /** The head: the claim is of no use after the next commit. */
  readonly slot: bigint
  readonly index: bigint
  /** The chain at that index. */
  readonly hash: Uint8Array
  /** In the order in which they are sent. */
  readonly agentIds: readonly Uint8Array[]
}

/** The bytes that the owner signs. */
export function rosterBytes({ channelId, slot, index, hash, agentIds }: RosterClaim): Uint8Array<ArrayBuffer> {
  return signedBytes(`${ALPN} roster`, [channelId, slot, index, hash, agentIds])
}
