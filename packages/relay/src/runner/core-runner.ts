/**
 * Runs the core: passes it inputs, carries out its effects, calls the store, the token verifier and the quota source
 * for it, and runs its timer.
 */
import { Turns } from '@static/node/turns'
import { type OverviewAgent, StaticError } from '@static/protocol'
import type { ClientMessage, ServerMessage } from '@static/protocol/relay'
import type { Effect, Input, Outcome, SessionNotice } from '../core/io.ts'
import type { Excess } from '../core/sessions/limits.ts'
import type { Relay, RelayCounts } from '../core/relay.ts'
import type {
  Bus,
  BusListener,
  CallHandler,
  News,
  NodeId,
  PartGate,
  Peer,
  PushSink,
  QuotaSource,
  Store,
  StoreEvent,
  StreamHandler,
  StreamId,
  Subscription,
  Time,
  TokenVerifier,
  Transport,
} from '../ports.ts'
import type { ShapingCounts } from '../session/shaping.ts'
import type { Settings } from '../settings.ts'
import type { RunnerContext, Waiting } from './context.ts'
import { Exchanges } from './exchanges.ts'
import { Links, type Packets } from './links.ts'
import { PartDesk } from './part-desk.ts'

export interface CoreRunnerOptions {
  readonly relay: Relay
  readonly store: Store
  readonly settings: Settings
  readonly verify: TokenVerifier
  readonly quota: QuotaSource
  /** The bus to other nodes; undefined if there are none. */
  readonly bus?: Bus | undefined
  /** The wall clock. */
  readonly now: () => Time
  /** Milliseconds of a monotonic clock. */
  readonly monotonic: () => Time
  /** Calls back in the next turn of the event loop. */
  readonly nextTurn: (act: () => void) => void
  /** Receives errors of background tasks. */
  readonly onError: (error: unknown) => void
  /** Receives every failure of the store: many a second if the disk is full. */
  readonly onStoreError: (error: unknown) => void
  /** Called for every peer refused because of a limit. */
  readonly onExcess: (excess: Excess) => void
  /** Called for every message sent, for metrics; for an answer, with the time since its request arrived. */
  readonly onSend: (message: ServerMessage, receivers: number, tookMs: number | undefined) => void
  /** Called for every session that an agent opens. */
  readonly onSession: (session: SessionNotice) => void
}

/** Number of costly requests handled in one turn of the event loop. */
const REQUESTS_PER_TURN = 4
const TICK_MS = 200
const SWEEP_MS = 1000
/** While nobody is connected, nothing is due sooner, and an idle server costs its machine next to nothing. */
const RESTING_TICK_MS = 1000
const RESTING_SWEEP_MS = 10_000
const DRAIN_STEP_MS = 5
const DISPERSE_MS = 8000

/** Connects the core with the outside. */
export class CoreRunner implements CallHandler, BusListener {
  readonly #relay: Relay
  readonly #store: Store
  readonly #settings: Settings
  readonly #options: CoreRunnerOptions
  readonly #links: Links
  readonly #exchanges: Exchanges
  readonly #parts: PartDesk
  #timer: NodeJS.Timeout | undefined
  #lastStream = 0
  #tickMs = TICK_MS
  #tickedAt: Time
  #sweeping = false
  #sweptAt: Time
  /** Since when the store cannot write. */
  #brokenAt: Time | undefined

  constructor(options: CoreRunnerOptions) {
    this.#options = options
    this.#relay = options.relay
    this.#store = options.store
    this.#settings = options.settings
    const context: RunnerContext = {
      settings: options.settings,
      now: options.monotonic,
      handle: (input) => this.#handle(input),
      nextStream: () => {
        this.#wake()
        return ++this.#lastStream
      },
      turns: new Turns<Waiting>({
        perTurn: REQUESTS_PER_TURN,
        run: ({ run }) => run(),
        isGone: ({ isGone }) => isGone(),
        nextTurn: options.nextTurn,
      }),
    }
    this.#links = new Links(context)
    this.#exchanges = new Exchanges(context)
    this.#parts = new PartDesk((input) => this.#handle(input))
    this.#tickedAt = options.monotonic()
    this.#sweptAt = this.#tickedAt
    this.#tickIn(TICK_MS)
  }

  get counts(): RelayCounts {
    return this.#relay.counts
  }

  /** Cells of sessions without a clock. */
  get traffic(): ShapingCounts {
    return this.#links.traffic
  }

  /** At most `limit` agents of an account seen since the start. */
  agentsOf(account: string, limit: number): readonly OverviewAgent[] {
    return this.#relay.agentsOf(account, limit, this.#options.now())
  }

  /** Decides about the parts of files. */
  get parts(): PartGate {
    return this.#parts
  }

  /** The handler for the streams of a transport. */
  streams(transport: () => Transport): StreamHandler {
    return this.#links.streams(transport)
  }

  /** Handles an event of the store. */
  event(event: StoreEvent): void {
    this.#handle({ type: 'event', event })
  }

  /** Handles news from another node. */
  news(news: News, from: NodeId): void {
    this.#handle({ type: 'news', news, from })
  }

  /** Handles that news may have been missed. */
  doubt(): void {
    this.#handle({ type: 'doubt' })
  }

  knows(token: string): boolean {
    return this.#relay.knows(token, this.#options.now())
  }

  turn(peer: Peer, isGone: () => boolean): Promise<void> {
    return this.#exchanges.turn(peer, isGone)
  }

  call(peer: Peer, message: ClientMessage, signal?: AbortSignal): Promise<ServerMessage> {
    return this.#exchanges.call(peer, message, signal)
  }

  subscribe(peer: Peer, message: ClientMessage, sink: PushSink): Subscription {
    return this.#exchanges.subscribe(peer, message, sink)
  }

  /** Runs timed work that is due. */
  tick(): void {
    const now = this.#options.monotonic()
    this.#links.tick(now)
    this.#exchanges.tick(now)
    this.#options.bus?.tick()
    this.#checkStore(now)
    this.#handle({ type: 'tick' })
  }

  #tickIn(ms: number): void {
    this.#tickMs = ms
    this.#timer = setTimeout(() => {
      this.#tickInTime()
      if (this.#timer !== undefined) this.#tickIn(this.#isResting ? RESTING_TICK_MS : TICK_MS)
    }, ms)
  }

  /** Whether nobody is connected. A store that cannot write is tried as often as ever. */
  get #isResting(): boolean {
    const { bus } = this.#options
    return !bus && this.#links.size === 0 && this.#exchanges.size === 0 && this.#store.healthy()
  }

  /** Somebody connects. */
  #wake(): void {
    if (this.#timer === undefined || this.#tickMs === TICK_MS) return
    clearTimeout(this.#timer)
    this.#tickedAt = this.#options.monotonic()
    this.#tickIn(TICK_MS)
  }

  /**
   * While this process was paused (starved, stopped, on a suspended machine) it read and answered nothing. That time
   * must not count against peers, or all of them would be disconnected at once.
   */
  #tickInTime(): void {
    const now = this.#options.monotonic()
    const missed = now - this.#tickedAt - this.#tickMs
    this.#tickedAt = now
    if (missed > TICK_MS) {
      this.#links.excuse(missed)
      this.#exchanges.excuse(missed)
    }
    this.tick()
    if (now - this.#sweptAt >= (this.#isResting ? RESTING_SWEEP_MS : SWEEP_MS)) this.#sweep(now)
  }

  /** A node that has lost its store sends its sessions to other nodes, which may still have it. */
  #checkStore(now: Time): void {
    if (!this.#options.bus || this.#store.healthy()) this.#brokenAt = undefined
    else {
      // Silence counts as an outage only after a while, during which agents already wait.
      this.#brokenAt ??= now - (this.#store.silentMs?.() ?? 0)
      if (now - this.#brokenAt < DISPERSE_MS) return
      this.#brokenAt = now
      this.#handle({ type: 'disperse' })
    }
  }

  /** Tells every session to reconnect, and waits a limited time for accepted requests to be answered. */
  async drain(): Promise<void> {
    this.#handle({ type: 'drain' })
    const busy = (): boolean => {
      const { requests, pending } = this.#relay.counts
      return requests > 0 || pending > 0 || this.#links.size > 0
    }
    for (let left = this.#settings.session.drainMs; busy() && left > 0; left -= DRAIN_STEP_MS) {
      await new Promise((resolve) => setTimeout(resolve, DRAIN_STEP_MS))
    }
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #handle(input: Input): void {
    try {
      const { now, monotonic } = this.#options
      for (const effect of this.#relay.handle(input, now(), monotonic())) this.#carryOut(effect)
    } catch (error) {
      // A bug in the relay: log it and keep serving everyone else.
      this.#options.onError(error)
    }
  }

  #carryOut(effect: Effect): void {
    switch (effect.type) {
      case 'send':
        this.#send(effect.streams, effect.message, effect.tookMs)
        return
      case 'began':
        this.#links.known(effect.stream)
        this.#options.onSession(effect.session)
        return
      case 'part':
        this.#parts.answer(effect.id, effect.answer)
        return
      case 'end':
        if (!this.#links.end(effect.stream)) this.#exchanges.end(effect.stream)
        return
      case 'limit':
        this.#links.limit(effect.stream, effect.bytes)
        return
      case 'shape':
        this.#links.shape(effect)
        return
      case 'store':
        this.#wait(
          effect.id,
          this.#store.run(effect.name, effect.request).catch((error) => this.#storeFailed(error)),
        )
        return
      case 'verify':
        this.#wait(effect.id, this.#options.verify(effect.jwt))
        return
      case 'lease':
        this.#wait(effect.id, this.#options.quota.lease(effect.account, this.#settings.leaseUnits))
        return
      case 'blocked':
        this.#wait(effect.id, this.#options.quota.blocked(effect.accounts))
        return
      case 'publish':
        this.#options.bus?.publish(effect.topic, effect.news)
        return
      case 'watch':
        if (effect.on) this.#options.bus?.watch(effect.topic)
        else this.#options.bus?.unwatch(effect.topic)
        return
      case 'report':
        this.#options.onError(effect.error)
        return
      case 'excess':
        this.#options.onExcess(effect.excess)
        return
      case 'settle':
        this.#wait(effect.id, this.#options.quota.settle(effect.lease, effect.spent, effect.final, effect.keys))
    }
  }

  #send(streams: readonly StreamId[], message: ServerMessage, tookMs: number | undefined): void {
    this.#options.onSend(message, streams.length, tookMs)
    const packets: Packets = {}
    for (const id of streams) {
      if (!this.#links.send(id, message, packets)) this.#exchanges.write(id, message)
    }
  }

  /** Callers get a general error. */
  #storeFailed(error: unknown): never {
    this.#options.onStoreError(error)
    throw error
  }

  #wait(id: number, result: Promise<unknown>): void {
    const done = (outcome: Outcome<unknown>): void => this.#handle({ type: 'done', id, outcome })
    result.then(
      (value) => done({ ok: true, value }),
      (error: unknown) => {
        const known = StaticError.from(error)
        if (known.code === 'internal_error') this.#options.onError(error)
        done({ ok: false, error: known })
      },
    )
  }

  #sweep(now: Time): void {
    if (this.#sweeping) return
    this.#sweeping = true
    this.#sweptAt = now
    this.#store
      .run('sweep', { now: this.#options.now() })
      .catch(this.#options.onStoreError)
      .finally(() => (this.#sweeping = false))
  }
}
