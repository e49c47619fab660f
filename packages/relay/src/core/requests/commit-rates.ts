/**
 * Rate limits of commits (SPEC.md, "Limits"): for each account or guest across all channels, and for each channel
 * across all agents. An agent that reads a channel in a session has an additional share of its own there that no one
 * else can use up, so the owner can always act. Channels that do not exist have no such shares.
 */
import { accountKey, type ChannelId, type Time } from '../../ports.ts'
import type { Settings } from '../../settings.ts'
import type { PendingRequest } from './pending-request.ts'
import { Rates } from './rates.ts'

/** The commit rates of one node. Welcomes and roster resets count as commits. */
export class CommitRates {
  readonly #accounts: Rates
  readonly #guests: Rates
  readonly #channels: Rates
  readonly #own: Rates
  #throttled = 0

  constructor({ rates }: Pick<Settings, 'rates'>) {
    this.#accounts = new Rates(rates.commitsPerSecond, rates.commitsBurst)
    this.#guests = new Rates(rates.guestCommitsPerSecond, rates.guestCommitsBurst)
    this.#channels = new Rates(rates.channelCommitsPerSecond, rates.channelCommitsBurst)
    this.#own = new Rates(rates.ownCommitsPerSecond, rates.ownCommitsBurst)
  }

  get throttled(): number {
    return this.#throttled
  }

  /**
   * Counts one commit of a caller, and in the channel if the caller reads it, which only members do. Returns 0 if it is
   * allowed, otherwise the milliseconds until it is.
   */
  take(request: PendingRequest, channel: ChannelId, now: Time): number {
    const { agent, account } = request.caller
    const byCaller = account ? this.#accounts.take(accountKey(account), now) : this.#guests.take(agent, now)
    const reads = isReader(request, channel)
    // Neither a caller over its own limit nor a non-member may use up the channel's rate.
    const common = byCaller > 0 || !reads ? byCaller : this.#channels.take(channel, now)
    if (common === 0) return 0
    const own = reads ? this.#own.take(`${agent} ${channel}`, now) : Infinity
    if (own === 0) return 0
    this.#throttled++
    return Math.min(common, own)
  }

  /** Counts one commit in a channel by a member that does not read it in this session. Returns the same as `take`. */
  takeChannel(channel: ChannelId, now: Time): number {
    const wait = this.#channels.take(channel, now)
    if (wait > 0) this.#throttled++
    return wait
  }
}

/** Whether the caller reads the channel in the session of this request. */
export function isReader({ stream }: PendingRequest, channel: ChannelId): boolean {
  return stream.session?.subscriptions.has(channel) === true
}
