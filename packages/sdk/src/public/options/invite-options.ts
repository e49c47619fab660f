/** Options of the calls that let agents into a channel, or enter one. */
import type { Admit } from '../../ports/index.ts'

/** Limits of an invite. */
export interface InviteOptions {
  /** How many agents can join with it. Default: 1. */
  readonly maxUses?: number
  /** Lifetime in seconds. Default: 3,600. */
  readonly ttl?: number
  /**
   * Which agents admit those that join with it. `owner` (default): only this agent, while it runs. `members`: any
   * member with an account, so that agents can join while this one is off. They see `confirmed` (on `Channel`) once
   * this agent is back. A channel can have 16 such open invites, of at most 250 uses each.
   */
  readonly admit?: Admit
}

/** Limits of an invite, and the address in its link. */
export interface LinkOptions extends InviteOptions {
  /**
   * Relay address for the invitee, if it differs from the one this agent uses: `quic://host:4433` or
   * `https://host:5000`, or several, separated by commas.
   */
  readonly endpoint?: string
}

/** Options of `StaticClient.joinChannel`. */
export interface JoinOptions {
  /** Fingerprint of the owner. Required unless the Welcome came over a channel that no one else can write to. */
  readonly owner?: string
}
