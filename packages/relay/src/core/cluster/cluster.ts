/**
 * One node among others: it announces what happens here, hears from the others, and queries the store for what it may
 * have missed. The bus only makes this faster. Everything that must not be lost is in the store: where logs end
 * (`heads`) and what else happened (`notices`). It is queried at once on doubt, and regularly in any case.
 */
import {
  type Account,
  type AgentId,
  type BusState,
  type ChannelId,
  MAX_STORE_CLOCK_OFFSET_MS,
  type News,
  type NodeId,
  type StoreEvent,
  type Time,
} from '../../ports.ts'
import type { KeyPackages } from '../channels/key-packages.ts'
import type { Claimed, OtherNodes } from '../channels/other-nodes.ts'
import type { Receipts } from '../channels/receipts.ts'
import type { Delivery } from '../delivery.ts'
import type { Effects } from '../effects.ts'
import { EventTally } from './event-tally.ts'
import type { Outcome } from '../io.ts'
import { NONE_CLAIMED, RemoteClaims } from './remote-claims.ts'
import type { Session } from '../sessions/stream.ts'

/** What a node knows about its deployment. */
export interface ClusterOptions {
  readonly node: NodeId
  /** How far the store's clock is ahead of ours. */
  readonly clockOffsetMs: () => number
  /** Whether the bus is connected, and how many other nodes were recently heard on it. */
  readonly bus: () => BusState
  /** How many nodes use the store now, including this one. */
  readonly nodes: () => number
}

/** The parts of the core that the cluster acts on. */
export interface ClusterParts {
  readonly effects: Effects
  readonly delivery: Delivery
  readonly keyPackages: KeyPackages
  readonly receipts: Receipts
  /** Handles an event like one of this node. */
  readonly apply: (event: StoreEvent) => void
  /** Ends a session because the agent has a newer one elsewhere. */
  readonly replace: (session: Session) => void
  /** Ends sessions whose channels may have changed unnoticed; their agents then resume. */
  readonly restart: (sessions: Iterable<Session>) => void
}

/** How often the store is queried, with the bus and without. */
const ROUND_MS = { heard: 10_000, alone: 1000 } as const
/** The store keeps notices for a minute. */
const NOTICES_KEPT_MS = 45_000
const MAX_NOTICES = 500
const HEADS_AT_ONCE = 500
/** Doubts within this time count as one. */
const DOUBT_MS = 200
const MAX_TOLD = 10_000
/** Messages of two sessions cross only if these were opened within this time. */
const CROSSING_MS = 50
/** More than the nodes' clocks differ. */
const STALE_MS = 2000

/** Queries to the store because messages may have been missed, for the metrics. */
export interface CatchUpCounts {
  /** Queries for the ends of logs, and for other events. */
  readonly heads: number
  readonly notices: number
  /** Channels whose log was longer than this node knew. */
  readonly gaps: number
}

/** This node's part in the cluster. */
export class Cluster implements OtherNodes {
  readonly #options: ClusterOptions
  readonly #parts: ClusterParts
  readonly #tally = new EventTally()
  readonly #channels = new Set<ChannelId>()
  readonly #agents = new Set<AgentId>()
  /** Channels whose end must be queried. */
  readonly #unsure = new Set<ChannelId>()
  /** Channels that may have grown here without an event. */
  readonly #untold = new Set<ChannelId>()
  /** Channels that the store did not know in the last round. */
  readonly #missing = new Set<ChannelId>()
  readonly #claims = new RemoteClaims()
  /** Events that arrived recently, by sender and number. */
  readonly #told = new Set<string>()
  #lastEvent = 0
  #position: string | undefined
  /** Callbacks waiting until the first position is known. */
  #listeners: ((outcome: Outcome<unknown>) => void)[] = []
  /** By the monotonic clock. */
  #heardAt: Time | undefined
  #roundAt: Time = -Infinity
  readonly #catchUps = { heads: 0, notices: 0, gaps: 0 }
  #isReadingNotices = false
  #isReadingHeads = false

  constructor(options: ClusterOptions, parts: ClusterParts) {
    this.#options = options
    this.#parts = parts
    parts.effects.onUnknown = (channel) => this.#unknown(channel)
  }

  get catchUps(): CatchUpCounts {
    return this.#catchUps
  }

  /**
   * Whether this node will find everything that happens from now on. Until it knows where the notices end, it could
   * miss what happens after an agent was served.
   */
  get isListening(): boolean {
    return this.#position !== undefined
  }

  /** Continues once this node listens, or with the error of the store. */
  listen(then: (outcome: Outcome<unknown>) => void): void {
    this.#listeners.push(then)
    this.#askNotices()
  }

  // ---- What happens here ----

  /** Announces an event of this node to the others. */
  happened(event: StoreEvent): void {
    const { effects } = this.#parts
    const { monotonic } = effects
    if (event.type !== 'appended') this.#tally.isNew(event, 'told', monotonic)
    const news: News = { type: 'event', number: ++this.#lastEvent, event }
    for (const agent of concerned(event)) effects.publish(`a.${agent}`, news)
    // Join requests for members go to all nodes where the channel is read; other nodes find them among the notices.
    const isPersonal = event.type === 'welcomed' || (event.type === 'joinRequested' && event.owner !== undefined)
    if ('channel' in event && !isPersonal) {
      effects.publish(`c.${event.channel}`, news)
    }
  }

  /** Called when a channel gets its first reader here or loses its last. */
  reads(channel: ChannelId, isRead: boolean): void {
    const { effects } = this.#parts
    effects.watch(`c.${channel}`, isRead)
    if (isRead) {
      this.#channels.add(channel)
      // News from before the first reader was not heard here.
      this.#unsure.add(channel)
      return
    }
    this.#channels.delete(channel)
    this.#unsure.delete(channel)
    this.#missing.delete(channel)
  }

  /** Called when an agent has opened a session here. */
  entered({ agent, since }: Session): void {
    this.follow(agent)
    this.#parts.effects.publish(`a.${agent}`, { type: 'entered', agent, at: since })
  }

  /** The time by the store's clock, which all nodes share. */
  get time(): Time {
    return this.#parts.effects.now + this.#options.clockOffsetMs()
  }

  /** Whether this node's clock agrees with the store's: tokens, invites and leases of all nodes expire by the clock. */
  get isClockRight(): boolean {
    return Math.abs(this.#options.clockOffsetMs()) <= MAX_STORE_CLOCK_OFFSET_MS
  }

  /** Subscribes to news about an agent, as long as it has a session or KeyPackages here. */
  follow(agent: AgentId): void {
    if (this.#agents.has(agent)) return
    this.#agents.add(agent)
    this.#parts.effects.watch(`a.${agent}`, true)
  }

  /** Asks other nodes for a KeyPackage of an agent, for an account. */
  claim(agent: AgentId, account: Account, then: (claimed: Claimed) => void): void {
    const { effects } = this.#parts
    const { connected, nodes } = this.#options.bus()
    if (!connected || nodes === 0 || this.#claims.isFull) return then(NONE_CLAIMED)
    effects.publish(`a.${agent}`, { type: 'claim', id: this.#claims.add(effects.monotonic, then), agent, account })
  }

  // ---- What happens elsewhere ----

  news(news: News, from: NodeId): void {
    switch (news.type) {
      case 'event':
        return this.#eventOf(news, from)
      case 'reached':
        return void this.#parts.delivery.reached(news.channel, news.index)
      case 'receipts':
        return this.#parts.receipts.told(news.channel, news.receipts)
      case 'entered':
        return this.#enteredElsewhere(news.agent, news.at, from)
      case 'claim':
        return this.#claimedBy(news, from)
      case 'claimed':
        return this.#claims.answered(news.id, news)
      case 'moved':
        this.#parts.keyPackages.receive(news.account, news.agent, news.keyPackages)
        return this.follow(news.agent)
      default:
      // From a newer version: the store has everything that matters.
    }
  }

  /** Called when messages may have been missed. */
  doubt(): void {
    for (const channel of this.#channels) this.#unsure.add(channel)
    this.#roundAt = Math.min(this.#roundAt, this.#parts.effects.monotonic - ROUND_MS.heard + DOUBT_MS)
  }

  /** Called when an operation's outcome is unknown: if it was done, no event announced it. */
  #unknown(channel: ChannelId | undefined): void {
    if (channel !== undefined) {
      this.#unsure.add(channel)
      this.#untold.add(channel)
    }
    this.doubt()
  }

  tick(): void {
    const { monotonic: now } = this.#parts.effects
    this.#claims.tick(now)
    this.#tally.forget(now)
    if (now - this.#roundAt >= (this.#hearsAll ? ROUND_MS.heard : ROUND_MS.alone)) this.#round(now)
    this.#askHeads()
  }

  /** Whether all nodes that use the store are heard on the bus: no one hears what the others write. */
  get #hearsAll(): boolean {
    const { connected, nodes } = this.#options.bus()
    return connected && nodes + 1 >= this.#options.nodes()
  }

  /** Queries the store for everything that matters here. */
  #round(now: Time): void {
    this.#roundAt = now
    for (const channel of [...this.#channels, ...this.#untold]) this.#unsure.add(channel)
    for (const agent of this.#agents) if (!this.#isHere(agent)) this.#unfollow(agent)
    this.#askNotices()
  }

  #isHere(agent: AgentId): boolean {
    const { delivery, keyPackages } = this.#parts
    return delivery.session(agent) !== undefined || keyPackages.held(agent) > 0
  }

  #unfollow(agent: AgentId): void {
    this.#agents.delete(agent)
    this.#parts.effects.watch(`a.${agent}`, false)
  }

  #eventOf({ event, number }: Extract<News, { type: 'event' }>, from: NodeId): void {
    if (event.type !== 'appended') {
      const key = `${from} ${number}`
      if (this.#told.has(key)) return
      this.#told.add(key)
      if (this.#told.size > MAX_TOLD) {
        for (const oldest of this.#told) {
          this.#told.delete(oldest)
          break
        }
      }
    }
    this.#event(event, 'told')
  }

  #event(event: StoreEvent, source: 'told' | 'read'): void {
    const isNew = event.type === 'appended' || this.#tally.isNew(event, source, this.#parts.effects.monotonic)
    if (isNew) this.#parts.apply(event)
  }

  #enteredElsewhere(agent: AgentId, at: Time, from: NodeId): void {
    const { effects, delivery, keyPackages, replace } = this.#parts
    const session = delivery.session(agent)
    if (session && this.#isNewer(session, at, from)) {
      return effects.publish(`a.${agent}`, { type: 'entered', agent, at: session.since })
    }
    if (session) replace(session)
    for (const { account, keyPackages: moved } of keyPackages.release(agent)) {
      effects.publish(`n.${from}`, { type: 'moved', agent, account, keyPackages: moved })
    }
  }

  /**
   * Whether a session here is newer than one elsewhere that has just been announced. Usually not: the announcement
   * arrives before its agent can come here. Clocks decide only if both were opened at the same moment, or if the
   * message is old.
   */
  #isNewer({ since, begunAt }: Session, at: Time, from: NodeId): boolean {
    if (this.#parts.effects.monotonic - begunAt > CROSSING_MS) return since - at > STALE_MS
    return since > at || (since === at && this.#options.node > from)
  }

  #claimedBy({ id, agent, account }: Extract<News, { type: 'claim' }>, from: NodeId): void {
    if (!this.#isHere(agent)) return
    const claimed = this.#parts.keyPackages.hand(agent, account)
    this.#parts.effects.publish(`n.${from}`, { type: 'claimed', id, ...claimed })
  }

  // ---- The store ----

  #askNotices(): void {
    if (this.#isReadingNotices) return
    this.#isReadingNotices = true
    this.#catchUps.notices += 1
    const { effects, delivery, restart } = this.#parts
    const asked = effects.monotonic
    effects.store('notices', { after: this.#position, limit: MAX_NOTICES }, (outcome) => {
      this.#isReadingNotices = false
      // The next round retries.
      if (!outcome.ok) return this.#settleListeners(outcome)
      const { events, position, more } = outcome.value
      // Too long ago: some notices may be gone, and which channels they concerned is unknown.
      if (this.#heardAt !== undefined && asked - this.#heardAt > NOTICES_KEPT_MS) restart([...delivery.sessions()])
      this.#position = position
      this.#heardAt = asked
      for (const event of events) this.#event(event, 'read')
      this.#settleListeners(outcome)
      if (more) this.#askNotices()
    })
  }

  #settleListeners(outcome: Outcome<unknown>): void {
    const waiting = this.#listeners
    this.#listeners = []
    for (const then of waiting) then(outcome)
  }

  #askHeads(): void {
    if (this.#isReadingHeads || this.#unsure.size === 0) return
    const channels = [...this.#unsure].slice(0, HEADS_AT_ONCE)
    for (const channel of channels) this.#unsure.delete(channel)
    this.#isReadingHeads = true
    this.#catchUps.heads += 1
    this.#parts.effects.store('heads', { channels }, (outcome) => {
      this.#isReadingHeads = false
      if (!outcome.ok) {
        for (const channel of channels) {
          if (this.#channels.has(channel) || this.#untold.has(channel)) this.#unsure.add(channel)
        }
        return
      }
      const { delivery, effects } = this.#parts
      const found = new Map(outcome.value.heads.map(({ channel, index }) => [channel, index]))
      for (const channel of channels) {
        const index = found.get(channel)
        const isUntold = this.#untold.delete(channel)
        if (index === undefined) this.#gone(channel)
        else {
          this.#missing.delete(channel)
          if (isUntold) effects.publish(`c.${channel}`, { type: 'reached', channel, index })
          if (delivery.reached(channel, index)) this.#catchUps.gaps += 1
        }
      }
      this.#askHeads()
    })
  }

  /**
   * Called when the store no longer has a channel that is read here. Its deletion is among the notices, unless they
   * have expired.
   */
  #gone(channel: ChannelId): void {
    if (!this.#channels.has(channel)) return
    if (!this.#missing.has(channel)) return void this.#missing.add(channel)
    this.#missing.delete(channel)
    const { delivery, restart } = this.#parts
    restart([...delivery.readers(channel)])
  }
}

/** Agents that must hear of an event even if their node does not read the channel. */
function concerned(event: StoreEvent): readonly AgentId[] {
  switch (event.type) {
    case 'welcomed':
    case 'joinAnswered':
      return [event.agent]
    case 'joinRequested':
      return event.owner === undefined ? [] : [event.owner]
    case 'rejected':
      return [...event.undoneAdds, ...event.undoneRemoves]
    case 'rosterReset':
      return [...event.dropped, ...event.returned]
    case 'appended':
    case 'ownerChanged':
    case 'barLifted':
    case 'deleted':
      return []
  }
}
