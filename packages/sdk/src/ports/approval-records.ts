/** Approvals in the agent's database: those that it has asked for, and those that it is asked for. */
import type { AgentId, Time } from './ids.ts'

/** What changes of an approval. Its request and what has happened to it are apart. */
export interface ApprovalRecord {
  /** SHA-256 of the request. */
  readonly hash: Uint8Array
  /** The name that the asker's key claims. */
  readonly identity: Uint8Array
  /** When it was asked for, or arrived, by this agent's clock. */
  readonly since: Time
  /** Of this agent's own: the latest time that it has seen, so that a clock that is set back opens nothing again. */
  readonly clock: Time
  /** Of this agent's own: `approved`, `denied` or `expired`; undefined while it is open. */
  readonly outcome: string | undefined
  /** Of this agent's own: its permission is used. */
  readonly isSpent: boolean
}

/** A decision on an approval, or the removal of a member that may decide, in the order in which they were processed. */
export interface ApprovalEventRecord {
  readonly hash: Uint8Array
  readonly number: number
  readonly agent: AgentId
  /** `approve`, `deny` or `removed`. */
  readonly what: string
  readonly at: Time
  /** The decision as it was signed, the key that signed it, and the name that it claims; empty for a removal. */
  readonly decision: Uint8Array
  readonly publicKey: Uint8Array
  readonly identity: Uint8Array
}

/** The bytes of a request. */
export interface ApprovalRequestRecord {
  readonly hash: Uint8Array
  readonly request: Uint8Array
}
