/** Members and times, as the application gets them. */
import type { MemberProof } from '../../channel/proving/member-proof.ts'
import type { AgentId, Time } from '../../ports/index.ts'
import { fingerprintOf } from '../fingerprint.ts'

/** The end of the year 9999. The relay sets message times freely, and other languages' dates end there. */
const LATEST_TIME = Date.UTC(10_000, 0) - 1

/** A member of a channel, identified by its key. */
export interface ChannelMember {
  /** SHA-256 of its public signature key, 64 hexadecimal digits. */
  readonly agentId: AgentId
  /** The agent id in groups of four digits. Compare it with the one its owner sees. */
  readonly fingerprint: string
  /** The name this agent chose for itself. Nothing verifies it. */
  readonly identity: Uint8Array
  /** Who runs it, as far as it has shown that and this agent has checked it; absent if it has shown nothing. */
  readonly proof?: MemberProof
}

/** A member in the list of `Channel.members`. */
export interface ListedMember extends ChannelMember {
  /** Whether the owner vouches for it (`Channel.vouch`). Only the owner knows; undefined for other agents. */
  readonly vouched: boolean | undefined
}

/** @internal */
export function memberOf(agentId: AgentId, identity: Uint8Array, proof?: MemberProof): ChannelMember {
  const member = { agentId, fingerprint: fingerprintOf(agentId), identity }
  return proof ? { ...member, proof } : member
}

/** @internal */
export function timeOf(milliseconds: Time): Date {
  return new Date(Math.min(milliseconds, LATEST_TIME))
}
