/** Options of the calls that let agents into a channel, or enter one. */
import { StaticError } from '@static/protocol'
import { rulesText } from '../../admitting/requiring.ts'
import type { Admit } from '../../ports/index.ts'
import type { Rule } from '../../proofs/rules.ts'

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
  /**
   * Admit only agents that prove who runs them: one rule, or several of which one must hold, as text or as objects. This
   * agent must trust the issuer (`roots`). Default: the rules of the channel, if it has any.
   */
  readonly require?: string | Rule | readonly (string | Rule)[]
  /**
   * A joiner takes the place of members that an issuer has vouched for under the same name, and that `require` would
   * admit, in one commit: for CI jobs, which have a new key in each run. Needs `require`. Default: false.
   */
  readonly replace?: boolean
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
  /** Show this agent's proof in the channel: see `ShowOptions`. */
  readonly show?: string | true
}

/** What an agent shows in a channel. */
export interface ShowOptions {
  /**
   * Show the members who runs this agent, now and whenever others join. They can show it to others. `true`: the proof of
   * the client's option `proof`, or its only statement; a domain: the statement of that domain; or `github-actions`.
   * Default: nothing, or what it shows there already.
   */
  readonly show?: string | true
}

/** Options of `StaticClient.createChannel`. */
export interface CreateOptions extends ShowOptions {
  /**
   * The rules for all that join: see `InviteOptions.require`. A member that others, or `addMember`, add is asked for its
   * proof and removed after 10 minutes without one. The policy of this agent, while it owns the channel.
   */
  readonly require?: string | Rule | readonly (string | Rule)[]
}

/** @internal What `show` means inside: the issuer, empty for the only one. */
export function showOf(show: string | true | undefined): string | undefined {
  return show === true ? '' : show
}

/** @internal The rules of `require` as text. */
export function requireOf(given: InviteOptions['require']): string | undefined {
  if (given === undefined) return undefined
  const rules = typeof given === 'string' || !Array.isArray(given) ? [given as string | Rule] : given
  if (rules.length === 0)
    throw StaticError.of(
      'invalid_request',
      '`require` is an empty list, which no agent satisfies. Leave it out, or name a rule.',
    )
  return rulesText(rules)
}
