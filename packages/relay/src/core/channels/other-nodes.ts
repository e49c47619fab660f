/** What channel requests need from the other nodes of a cluster. */
import type { Account, AgentId } from '../../ports.ts'

/** The result of a claim at other nodes. */
export interface Claimed {
  readonly keyPackage: Uint8Array | undefined
  /** How long to wait if the account has had its share. */
  readonly waitMs: number
}

export interface OtherNodes {
  /** Subscribes to news about an agent, as long as it has a session or KeyPackages here. */
  follow(agent: AgentId): void
  /** Asks other nodes for a KeyPackage of an agent, for an account. */
  claim(agent: AgentId, account: Account, then: (claimed: Claimed) => void): void
}
