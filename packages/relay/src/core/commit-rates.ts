/**
 * How often agents may commit (SPEC.md, "Limits"): each account, or guest, over all channels, and each channel over all
 * agents. Whoever reads a channel by a session has a share of its own there besides, which nobody else can use up: the
 * owner can always act. Made-up channels have no shares.
 */
import type { ChannelId, Time } from '../ports.ts'
import type { Settings } from '../settings.ts'
import type { PendingRequest } from './pending-request.ts'
import { Rates } from './rates.ts'

/** The commits of one node, Welcomes and resets of rosters among them. */
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

  /** How many were put off so far. */
  get throttled(): number {
    return this.#throttled
  }

  /** Counts one; 0 when it may go on, otherwise the milliseconds until it may. */
  take({ caller: { agent, account }, stream }: PendingRequest, channel: ChannelId, now: Time): number {
    const byCaller = account ? this.#accounts.take(`${account.mode} ${account.id}`, now) : this.#guests.take(agent, now)
    // Whoever may not go on does not use up what is for all.
    const common = byCaller > 0 ? byCaller : this.#channels.take(channel, now)
    if (common === 0) return 0
    const isReader = stream.session?.subscriptions.has(channel) === true
    const own = isReader ? this.#own.take(`${agent} ${channel}`, now) : Infinity
    if (own === 0) return 0
    this.#throttled++
    return Math.min(common, own)
  }
}
