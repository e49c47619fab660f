/** Polls the relay for join requests, with one loop for each channel that has an invite. */
import { message } from '@static/protocol'
import { type JoinRequest, PollJoinRequestsRequestSchema } from '@static/protocol/relay'
import type { AgentServices } from '../core/agent/services.ts'
import type { Membership } from '../core/channel/membership.ts'
import type { ChannelId } from '../ports.ts'
import { retryDelay } from '../session/refusal.ts'

/** The relay allows an agent this many concurrent polls. */
const POLLS = 4
const LONG_POLL_MS = 25_000
const SHORT_POLL_MS = 1000

/** What polling needs from the issuer. */
export interface PollHost {
  readonly isStopped: boolean
  /** Whether an agent can still join the channel. */
  hasInvites(channel: ChannelId): boolean
  /** Handles requests that came together. */
  take(membership: Membership, requests: readonly JoinRequest[]): Promise<void>
  /** Reports the failure of a loop. */
  watch(task: Promise<void>): void
}

/** The polls of one agent. */
export class JoinPolls {
  readonly #agent: Pick<AgentServices, 'memberships' | 'requests' | 'timers'>
  readonly #host: PollHost
  /** The channels being polled. */
  readonly #polled = new Set<ChannelId>()

  constructor(agent: Pick<AgentServices, 'memberships' | 'requests' | 'timers'>, host: PollHost) {
    this.#agent = agent
    this.#host = host
  }

  /** Polls for requests as long as an agent can join the channel. */
  start(channel: ChannelId): void {
    if (this.#polled.has(channel) || this.#host.isStopped) return
    this.#polled.add(channel)
    this.#host.watch(this.#poll(channel).finally(() => this.#polled.delete(channel)))
  }

  async #poll(channel: ChannelId): Promise<void> {
    const { memberships, requests, timers } = this.#agent
    while (!this.#host.isStopped) {
      const membership = memberships.get(channel)
      if (!membership || membership.failure || !this.#host.hasInvites(channel)) return
      const { channelId } = membership
      const waitMs = this.#polled.size > POLLS ? 0 : LONG_POLL_MS
      const value = message(PollJoinRequestsRequestSchema, { channelId, waitMs, limit: 0 })
      const outcome = await requests.outcome({ case: 'pollJoinRequests', value })
      if (outcome.type === 'refused') {
        if (outcome.error.code !== 'rate_limited' && outcome.error.code !== 'unavailable') return
        await timers.wait(retryDelay(outcome.error.retryAfterMs))
      } else if (outcome.body.case === 'pollJoinRequests') {
        await this.#host.take(membership, outcome.body.value.requests)
        if (waitMs === 0) await timers.wait(SHORT_POLL_MS)
      }
    }
  }
}
