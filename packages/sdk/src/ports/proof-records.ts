/** Proofs of who runs an agent, in the agent's database: what it shows in a channel itself, and what members have shown. */
import type { AgentId, Time } from './ids.ts'

/** What this agent shows in a channel and, as the owner, demands there. */
export interface OwnProofRecord {
  /** The index of the entry that added this agent; 0 if it founded the channel. */
  readonly place: number
  /** The issuer whose proof it shows; empty for its only one, undefined for none. */
  readonly show: string | undefined
  /** Whether it has to show its proof, for the first time or again. */
  readonly due: boolean
  /** When it last did; 0 if it has not. */
  readonly shownAt: Time
  /** The rules of `require`, as text, one a line; undefined without any. */
  readonly require: string | undefined
}

/** What a member of a channel has shown. */
export interface MemberProofRecord {
  readonly agent: AgentId
  /** The last verdict, as JSON that the layer above defines; undefined before the first one. */
  readonly verdict: string | undefined
  /** A proof to be checked, or to be checked again, behind the owner and the place that it was shown for. */
  readonly pending: Uint8Array | undefined
  /** As the owner: the rules that it must satisfy to stay, as text; undefined once it has, or if there are none. */
  readonly demand: string | undefined
  /** When that was demanded. */
  readonly demandedAt: Time
}
