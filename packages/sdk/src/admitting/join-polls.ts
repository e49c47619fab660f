/** Polls the relay for join requests, with one loop for each channel that has an invite. */
import { message } from '@static/protocol'
import { type JoinRequest, PollJoinRequestsRequestSchema } from '@static/protocol/relay'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { ChannelId } from '../ports/index.ts'
import { retryDelay } from '../ports/refusal.ts'
import { PendingJoins } from './pending-joins.ts'

/** The relay allows an agent this many concurrent polls. */
const POLLS = 4
const LONG_POLL_MS = 25_000
/** Between two polls that do not wait, for each channel that is polled, but at least as long as for four. */
const SHORT_POLL_MS = 250
/** So many polls are made in a window at most, whatever the relay answers. It allows twice as many. */
const MOST_POLLS = 20
const WINDOW_MS = 4000
const TURN_MS = 200

/** What polling needs from the issuer. */
export interface PollHost {
  readonly isStopped: boolean
  /** Whether an agent can still join the channel. */
  hasInvites(channel: ChannelId): boolean
  /** Handles requests that came together. */
  take(channel: AgentChannel, requests: readonly JoinRequest[]): Promise<void>
  /** Reports the failure of a loop. */
  watch(task: Promise<void>): void
}

/** The polls of one agent. */
export class JoinPolls {
  readonly #agent: Pick<AgentServices, 'context' | 'channels' | 'requests' | 'timers'>
  readonly #host: PollHost
  /** The number of sessions so far, and of polls in the last window. */
  #sessions = 0
  #recent = 0
  /** The channels being polled. */
  readonly #polled = new Set<ChannelId>()

  constructor(agent: Pick<AgentServices, 'context' | 'channels' | 'requests' | 'timers'>, host: PollHost) {
    this.#agent = agent
    this.#host = host
  }

  /** Polls for requests as long as an agent can join the channel. */
  start(channel: ChannelId): void {
    if (this.#polled.has(channel) || this.#host.isStopped) return
    this.#polled.add(channel)
    this.#host.watch(this.#poll(channel).finally(() => this.#polled.delete(channel)))
  }

  /** A session is open: the relay gives all requests again. */
  opened(): void {
    this.#sessions++
  }

  async #poll(id: ChannelId): Promise<void> {
    const { context, channels, requests, timers } = this.#agent
    const pending = new PendingJoins()
    let session = this.#sessions
    let triedAt = context.now()
    while (!this.#host.isStopped) {
      const channel = channels.get(id)
      if (!channel || channel.failure || !this.#host.hasInvites(id)) return
      await this.#turn()
      if (session !== this.#sessions) pending.restart()
      session = this.#sessions
      const { channelId } = channel
      const waitMs = this.#polled.size > POLLS ? 0 : LONG_POLL_MS
      const value = message(PollJoinRequestsRequestSchema, { channelId, waitMs, limit: 0, after: pending.after })
      const outcome = await requests.outcome({ case: 'pollJoinRequests', value })
      if (outcome.type === 'refused') {
        if (outcome.error.code !== 'rate_limited' && outcome.error.code !== 'unavailable') return
        await timers.wait(retryDelay(outcome.error.retryAfterMs))
      } else if (outcome.body.case === 'pollJoinRequests') {
        const fresh = pending.take(outcome.body.value)
        // What could not be decided is tried again, but not for each that is new.
        const isRetry = fresh.length === 0 || context.now() - triedAt >= LONG_POLL_MS
        if (isRetry) triedAt = context.now()
        await this.#host.take(channel, isRetry ? pending.all : fresh)
        if (waitMs === 0) await timers.wait(SHORT_POLL_MS * Math.max(POLLS, this.#polled.size))
      }
    }
  }

  /** Waits until another poll may be made. */
  async #turn(): Promise<void> {
    const { timers } = this.#agent
    while (this.#recent >= MOST_POLLS) await timers.wait(TURN_MS)
    this.#recent++
    timers.later(WINDOW_MS, () => this.#recent--)
  }
}
