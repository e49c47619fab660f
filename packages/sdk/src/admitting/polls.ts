/**
 * Polls the relay for join requests (SPEC.md, 3.4, "Polls"), one poll after another for each channel that has an
 * invite. The issuer asks for the next requests of a channel, and decides about them before it asks again.
 */
import { message, toHex } from '@static/protocol'
import { type JoinRequest, PollJoinRequestsRequestSchema, type PollJoinRequestsResponse } from '@static/protocol/relay'
import type { AgentServices } from '../agent/services.ts'
import type { AgentChannel } from '../channel/channel.ts'
import type { ChannelId, Time } from '../ports/index.ts'
import { retryDelay } from '../ports/refusal.ts'

/** The relay allows an agent this many concurrent polls. */
const POLLS = 4
const LONG_POLL_MS = 25_000
/** Minimum time between two polls that do not wait, for each polled channel, counted as at least four. */
const SHORT_POLL_MS = 250
/** The maximum number of polls in a window, whatever the relay answers. The relay allows twice as many. */
const MOST_POLLS = 20
const WINDOW_MS = 4000
const TURN_MS = 200

/**
 * An honest relay returns no more, and no larger ones. Beyond that, the oldest are forgotten until the next session.
 */
const MOST_REQUESTS = 2048
const MOST_BYTES = 4_194_304
const MOST_BOX_BYTES = 16_384

type Polling = Pick<AgentServices, 'context' | 'requests' | 'timers'>

/** The polls of one agent. */
export class JoinPolls {
  readonly #agent: Polling
  /** The number of sessions so far, and of polls in the last window. */
  #sessions = 0
  #recent = 0
  /** The channels being polled. */
  readonly #polled = new Set<ChannelId>()

  constructor(agent: Polling) {
    this.#agent = agent
  }

  /** Begins to poll for a channel; undefined if it is being polled. */
  begin(channel: ChannelId): ChannelPolls | undefined {
    if (this.#polled.has(channel)) return undefined
    this.#polled.add(channel)
    return new ChannelPolls(this.#agent, this)
  }

  /** The channel is no longer polled. */
  end(channel: ChannelId): void {
    this.#polled.delete(channel)
  }

  /** A session is open, in which the relay returns all requests again. */
  opened(): void {
    this.#sessions++
  }

  get sessions(): number {
    return this.#sessions
  }

  /** The number of channels being polled. */
  get channels(): number {
    return this.#polled.size
  }

  /** Waits until another poll may be made. */
  async turn(): Promise<void> {
    const { timers } = this.#agent
    while (this.#recent >= MOST_POLLS) await timers.wait(TURN_MS)
    this.#recent++
    timers.later(WINDOW_MS, () => this.#recent--)
  }
}

/** The polls of one channel. */
export class ChannelPolls {
  readonly #agent: Polling
  readonly #polls: JoinPolls
  readonly #pending = new PendingJoins()
  #session: number
  /** When all pending requests were last returned. */
  #triedAt: Time
  #isShort = false

  constructor(agent: Polling, polls: JoinPolls) {
    this.#agent = agent
    this.#polls = polls
    this.#session = polls.sessions
    this.#triedAt = agent.context.now()
  }

  /** Polls once. Returns the requests to decide about now; undefined if the relay refuses polls permanently. */
  async next({ channelId }: AgentChannel): Promise<readonly JoinRequest[] | undefined> {
    const { context, requests, timers } = this.#agent
    const pending = this.#pending
    await this.#polls.turn()
    if (this.#session !== this.#polls.sessions) pending.restart()
    this.#session = this.#polls.sessions
    const waitMs = this.#polls.channels > POLLS ? 0 : LONG_POLL_MS
    const value = message(PollJoinRequestsRequestSchema, { channelId, waitMs, limit: 0, after: pending.after })
    const outcome = await requests.outcome({ case: 'pollJoinRequests', value })
    this.#isShort = false
    if (outcome.type === 'refused') {
      if (outcome.error.code !== 'rate_limited' && outcome.error.code !== 'unavailable') return undefined
      await timers.wait(retryDelay(outcome.error.retryAfterMs))
      return []
    }
    if (outcome.body.case !== 'pollJoinRequests') return []
    this.#isShort = waitMs === 0
    const fresh = pending.update(outcome.body.value)
    // Undecided requests are retried, but not with each new one.
    const isRetry = fresh.length === 0 || context.now() - this.#triedAt >= LONG_POLL_MS
    if (isRetry) this.#triedAt = context.now()
    return isRetry ? pending.all : fresh
  }

  /** Waits before the next poll, if the last one did not wait at the relay. */
  async pause(): Promise<void> {
    if (this.#isShort) await this.#agent.timers.wait(SHORT_POLL_MS * Math.max(POLLS, this.#polls.channels))
  }
}

/**
 * The requests of one channel that the relay has returned to this agent and that are still pending there. The relay
 * returns each one once in a session, so a request that cannot be decided at once stays here for another try.
 */
export class PendingJoins {
  readonly #requests = new Map<string, JoinRequest>()
  #after = 0n
  #bytes = 0

  /** The number of the last returned request. */
  get after(): bigint {
    return this.#after
  }

  /** All pending requests, newest last. */
  get all(): readonly JoinRequest[] {
    return [...this.#requests.values()]
  }

  /** A new session begins, in which the relay returns all requests again. */
  restart(): void {
    this.#requests.clear()
    this.#bytes = 0
    this.#after = 0n
  }

  /** Adds the result of a poll after `after`, and drops requests that are no longer pending. Returns the new ones. */
  update({ requests, last, pending }: PollJoinRequestsResponse): readonly JoinRequest[] {
    if (last < this.#after) {
      this.restart()
      return []
    }
    const waiting = new Set(pending)
    for (const [key, { number }] of this.#requests) if (!waiting.has(number)) this.#drop(key)
    this.#after = last
    const fresh = requests.filter(({ box }) => box.length <= MOST_BOX_BYTES)
    for (const request of fresh) this.#put(request)
    return fresh
  }

  #put(request: JoinRequest): void {
    const key = `${toHex(request.inviteId)} ${toHex(request.agentId)}`
    this.#drop(key)
    this.#requests.set(key, request)
    this.#bytes += request.box.length
    for (const oldest of this.#requests.keys()) {
      if (this.#requests.size <= MOST_REQUESTS && this.#bytes <= MOST_BYTES) return
      this.#drop(oldest)
    }
  }

  #drop(key: string): void {
    this.#bytes -= this.#requests.get(key)?.box.length ?? 0
    this.#requests.delete(key)
  }
}
