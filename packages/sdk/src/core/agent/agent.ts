/**
 * An agent: its channels, its KeyPackages and its session. What the relay tells is handed to the channel that it is
 * about; what a channel wants to tell goes out after the turn's transaction. The application's calls that take more
 * than one step are in founding.ts, joining.ts and leaving.ts.
 */
import { fromHex, StaticError, toHex } from '@static/protocol'
import type { AckPosition, CommitRejected, DeliverWelcome } from '@static/protocol/relay'
import { agentIdOf, ed25519, KeyedMutex, type MlsEngine, type SignatureKeyPair } from '../../mls/index.ts'
import type {
  AgentId,
  AgentStore,
  ChannelId,
  InboxRecord,
  Outcome,
  RelaySession,
  RequestBody,
  SessionInfo,
  SessionListener,
  Snapshot,
  StoredChannel,
  Time,
} from '../../ports.ts'
import type { InviteHandler } from '../../invite/handler.ts'
import { type Answer, refusalError, retryDelay } from '../../session/refusal.ts'
import { type AgentEvent, Events } from './events.ts'
import { Journal } from '../channel/journal.ts'
import { KeyPackages, POOLED } from './key-packages.ts'
import { finishLeaving } from './leaving.ts'
import { Membership } from '../channel/membership.ts'
import { type Offer, takeWelcome } from './offers.ts'
import { Pins } from './pins.ts'
import type { World } from './context.ts'

/** What an agent is made of. */
export interface AgentParts {
  readonly store: AgentStore
  readonly engine: MlsEngine
  /** Dials; `ready` is fulfilled with the first session, or says why there is none. */
  connect(
    agent: SessionListener,
    key: SignatureKeyPair,
    relays: Snapshot['relays'],
  ): { session: RelaySession; ready: Promise<void> }
  now(): Time
  random(bytes: number): Uint8Array
  chance(): number
  /** The API that the agent uses, whose pages explain errors. */
  readonly apiUrl?: string | undefined
}

const TICK_MS = 5000
const CHECKPOINT_MS = 60_000
/** What may wait to be processed before the relay is asked to pause. */
const HOLD_BYTES = 2 * 1024 * 1024
const RESUMED_AT_ONCE = 500
const MOST_TRIES = 10
const LONGEST_TIMER_MS = 2 ** 31 - 1
/** A relay that says again and again that all are taken is believed now and then. */
const TOP_UP_MS = 10_000

/** A running agent. */
export class Agent implements SessionListener, World {
  readonly engine: MlsEngine
  readonly key: SignatureKeyPair
  readonly identity: Uint8Array
  readonly agentId: AgentId
  readonly sign: (bytes: Uint8Array) => Uint8Array
  readonly journal: Journal
  readonly pins: Pins
  readonly keyPackages: KeyPackages
  readonly memberships: Map<ChannelId, Membership> = new Map()
  readonly events: Events<AgentEvent> = new Events()
  readonly offers: Events<Offer> = new Events()
  /** Invites as they were on disk when the agent started. */
  readonly stored: Pick<Snapshot, 'invites' | 'joiners' | 'attempts'>
  /** One at a time founds or joins under a name. */
  readonly names: KeyedMutex = new KeyedMutex()
  readonly #parts: AgentParts
  readonly #invites: InviteHandler | undefined
  readonly #store: AgentStore
  readonly #session: RelaySession
  readonly ready: Promise<void>
  #info: SessionInfo | undefined
  /** How many sessions have been opened. */
  #sessions = 0
  /** What is waited for, and given up when the agent stops. */
  readonly #waits = new Set<PromiseWithResolvers<void>>()
  /** Settled when the next session is open. */
  #nextSession: PromiseWithResolvers<void> = Promise.withResolvers()
  #opened: PromiseWithResolvers<void> = Promise.withResolvers()
  #acks: Pick<AckPosition, 'channelId' | 'index'>[] = []
  #queuedBytes = 0
  #holding = false
  #toppingUp = false
  #checkpointAt: Time
  readonly #ticking: NodeJS.Timeout
  readonly #timers = new Set<NodeJS.Timeout>()
  #stopped = false
  #closed: Promise<void> | undefined

  /** `invites` makes what deals with invites, if anything does. */
  constructor(parts: AgentParts, invites?: (agent: Agent) => InviteHandler) {
    const { store, engine } = parts
    const { identity, keyPackages, channels, pins, relays, ...stored } = store.load()
    this.stored = stored
    this.#parts = parts
    this.#store = store
    this.engine = engine
    this.identity = identity.identity
    this.key = { publicKey: identity.publicKey, seed: identity.secretKey }
    this.agentId = toHex(agentIdOf(identity.publicKey))
    this.sign = ed25519.signer(this.key)
    this.journal = new Journal(store, (error) => this.#fail(error))
    this.pins = new Pins(pins, (change) => this.journal.add(change))
    this.keyPackages = new KeyPackages(this, keyPackages)
    for (const stored of channels) this.hold(stored)
    this.#checkpointAt = this.now() + CHECKPOINT_MS
    this.#ticking = setInterval(() => this.#tick(), TICK_MS).unref()
    this.#invites = invites?.(this)
    this.#expectSession()
    this.#nextSession.promise.catch(() => {})
    const { session, ready } = parts.connect(this, this.key, relays)
    this.#session = session
    this.ready = ready
  }

  // ---- For the channels ----

  get session(): RelaySession {
    return this.#session
  }

  get apiUrl(): string | undefined {
    return this.#parts.apiUrl
  }

  now(): Time {
    return this.#parts.now()
  }

  random(bytes: number): Uint8Array {
    return this.#parts.random(bytes)
  }

  chance(): number {
    return this.#parts.chance()
  }

  later(milliseconds: number, action: () => void): () => void {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer)
        action()
      },
      Math.min(milliseconds, LONGEST_TIMER_MS),
    )
    timer.unref()
    this.#timers.add(timer)
    return () => {
      clearTimeout(timer)
      this.#timers.delete(timer)
    }
  }

  emit(event: AgentEvent): void {
    if ('error' in event) event.error.explainAt(this.apiUrl)
    this.events.emit(event)
    if (event.type === 'channel_failed') this.#invites?.failed(event.channel)
  }

  acknowledge(id: ChannelId, index: number): void {
    if (this.#acks.length === 0) queueMicrotask(() => this.#sendAcks())
    this.#acks.push({ channelId: fromHex(id), index: BigInt(index) })
  }

  resume(id: ChannelId): void {
    this.#resume([id])
  }

  page(id: ChannelId, after: number, limit: number): readonly InboxRecord[] {
    this.journal.flush()
    return this.#store.inbox(id, after, limit)
  }

  greeted(id: ChannelId, kind: 'hello' | 'greeting', sender: AgentId, payload: Uint8Array): void {
    const membership = this.memberships.get(id)
    if (membership) this.#invites?.greeted(membership, kind, sender, payload)
  }

  admitted(id: ChannelId, joiner: string): void {
    this.#invites?.admitted(id, joiner)
  }

  queued(bytes: number): void {
    this.#queuedBytes += bytes
    if (!this.#holding && this.#queuedBytes > HOLD_BYTES) {
      this.#holding = true
      this.#session.hold()
    } else if (this.#holding && this.#queuedBytes < HOLD_BYTES / 2) {
      this.#holding = false
      this.#session.release()
    }
  }

  // ---- For the application's calls ----

  /** Whether the agent acts for no account. */
  get isGuest(): boolean {
    return this.#info?.guest ?? true
  }

  /** The channel under a name, unless it is only offered. */
  held(name: string): Membership | undefined {
    return [...this.memberships.values()].find((held) => held.name === name && held.state !== 'offered')
  }

  /** Holds a channel from now on. */
  hold(stored: StoredChannel): Membership {
    if (this.memberships.has(stored.record.id)) {
      throw StaticError.of('channel_exists', 'This agent is in that channel already, under another name.')
    }
    const membership = new Membership(this, stored, () => this.drop(membership, undefined))
    this.memberships.set(membership.id, membership)
    return membership
  }

  /** Lets go of a channel and of everything about it. */
  drop(membership: Membership, error: StaticError | undefined): void {
    membership.drop(error)
    if (membership.welcome) this.keyPackages.discard(membership.welcome)
    if (this.memberships.get(membership.id) !== membership) return
    this.memberships.delete(membership.id)
    this.#invites?.dropped(membership.id)
  }

  /**
   * Asks the relay something that can be asked again when the answer does not come; `take` has the answer before
   * anything that came after it.
   *
   * @throws {StaticError} the relay's refusal, or `closed`
   */
  async ask<Case extends RequestBody['case'], Result>(
    body: Extract<RequestBody, { readonly case: Case }>,
    take: (answer: Answer<Case>) => Result,
  ): Promise<Result> {
    for (let tries = 1; ; tries++) {
      await this.#opened.promise
      const session = this.#sessions
      const { promise, resolve, reject } = Promise.withResolvers<{ result: Result } | Outcome>()
      this.#session.request(body, (outcome) => {
        try {
          resolve(outcome.type === 'answered' ? { result: take(outcome.body.value as Answer<Case>) } : outcome)
        } catch (error) {
          reject(error)
        }
      })
      const outcome = await promise
      if ('result' in outcome) return outcome.result
      if (outcome.type !== 'refused') {
        await this.#sessionAfter(session)
        continue
      }
      const { code, retryAfterMs } = outcome.error
      const passes = code === 'unavailable' || code === 'rate_limited'
      if (!passes || tries >= MOST_TRIES) throw refusalError(outcome.error)
      await this.wait(retryDelay(retryAfterMs))
    }
  }

  /** Asks once; for what depends on the refusal's details. Waits for a session, and again if it is lost. */
  async outcome(body: RequestBody): Promise<Exclude<Outcome, { type: 'lost' }>> {
    for (;;) {
      await this.#opened.promise
      const session = this.#sessions
      const { promise, resolve } = Promise.withResolvers<Outcome>()
      this.#session.request(body, resolve)
      const outcome = await promise
      if (outcome.type !== 'lost') return outcome
      await this.#sessionAfter(session)
    }
  }

  /**
   * Waits.
   *
   * @throws {StaticError} when the agent stops meanwhile
   */
  async wait(milliseconds: number): Promise<void> {
    const waiting = Promise.withResolvers<void>()
    this.#waits.add(waiting)
    this.later(milliseconds, waiting.resolve)
    try {
      await waiting.promise
    } finally {
      this.#waits.delete(waiting)
    }
  }

  /** Removes a member by the application's will. */
  async removeMember(membership: Membership, agent: AgentId): Promise<void> {
    await this.#invites?.removing(membership, agent)
    await membership.commit(() => ({ removes: [fromHex(agent)] }), { despiteFork: membership.fork === agent })
  }

  /** Ends in order: what is in memory is written, what waits gets `closed`. */
  async close(): Promise<void> {
    this.#closed ??= this.#close()
    await this.#closed
  }

  async #close(): Promise<void> {
    this.#stop(StaticError.of('closed'), undefined)
    for (const membership of this.memberships.values()) await membership.idle()
    this.journal.flush()
    await this.#session.close()
    this.#store.close()
    this.key.seed.fill(0)
  }

  // ---- What the session tells ----

  opened(info: SessionInfo): void {
    // Without a word of loss when the session has moved to another way.
    if (this.#info) for (const membership of this.memberships.values()) membership.lose()
    this.#info = info
    this.#sessions++
    this.#opened.resolve()
    this.#nextSession.resolve()
    this.#nextSession = Promise.withResolvers()
    this.#nextSession.promise.catch(() => {})
    this.emit({ type: 'connected', way: info.way })
    const delivered = [...this.memberships.values()].filter(({ isDelivered }) => isDelivered).map(({ id }) => id)
    // Also without a channel: it is what makes the relay deliver Welcomes.
    if (delivered.length === 0) this.#resume([])
    for (let at = 0; at < delivered.length; at += RESUMED_AT_ONCE) {
      this.#resume(delivered.slice(at, at + RESUMED_AT_ONCE))
    }
    for (const membership of this.memberships.values()) {
      if (membership.state === 'leaving') finishLeaving(this, membership).catch(() => {})
    }
    this.#topUp(info.keyPackages)
    this.#invites?.opened(info)
  }

  lost(error: StaticError): void {
    this.#info = undefined
    if (!this.#stopped) this.#expectSession()
    for (const membership of this.memberships.values()) membership.lose()
    this.emit({ type: 'disconnected', error })
  }

  push(body: Parameters<SessionListener['push']>[0]): void {
    switch (body.case) {
      case 'deliverMessage':
      case 'deliverCommit':
      case 'deliverLeave':
      case 'gap':
        this.memberships.get(toHex(body.value.channelId))?.deliver(body)
        return
      case 'deliverWelcome':
        if (body.value.welcome?.inviteId.length === 0 || !this.#invites?.welcomed(body.value))
          this.#welcomed(body.value)
        return
      case 'joinAnswered':
        this.#invites?.refused(body.value.inviteId, body.value.code)
        return
      case 'commitRejected':
        this.#rejected(body.value)
        return
      case 'channelDeleted':
        this.memberships.get(toHex(body.value.channelId))?.over('not_found')
        return
      case 'keyPackagesLow':
        this.#topUp(body.value.held)
        return
      default:
      // Answers do not come this way, and what a newer relay tells is not for this agent.
    }
  }

  pin(endpoint: string, relayId: Uint8Array): void {
    this.journal.add({ type: 'putRelay', endpoint, relayId })
  }

  // ---- Inside ----

  #resume(ids: readonly ChannelId[]): void {
    const value = {
      $typeName: 'static.relay.v1.ResumeRequest',
      channelIds: ids.map(fromHex),
      after: new Uint8Array(),
    } as const
    this.#session.request({ case: 'resume', value: { ...value, channelIds: [...value.channelIds] } }, (outcome) => {
      if (outcome.type === 'refused') {
        this.later(retryDelay(outcome.error.retryAfterMs), () => this.#resume(ids))
      }
      if (outcome.type !== 'answered' || outcome.body.case !== 'resume') return
      const missing = new Set(ids)
      for (const state of outcome.body.value.channels) {
        const id = toHex(state.channelId)
        missing.delete(id)
        this.memberships.get(id)?.resumed(state)
      }
      // An answer without them is none: they are asked for again.
      if (missing.size > 0) this.later(retryDelay(undefined), () => this.#resume([...missing]))
    })
  }

  #rejected({ channelId, sender, undoneAdds }: CommitRejected): void {
    const membership = this.memberships.get(toHex(channelId))
    if (!membership) return
    this.emit({ type: 'commit_rejected', channel: membership.name, sender: toHex(sender) })
    // Who is in no longer is delivered nothing more: the answer says so.
    if (membership.isDelivered && undoneAdds.some((agent) => toHex(agent) === this.agentId)) membership.resume()
  }

  #welcomed(welcome: DeliverWelcome): void {
    takeWelcome(this, welcome).catch((error: unknown) =>
      this.emit({ type: 'welcome_refused', channel: welcome.name, error: StaticError.from(error) }),
    )
  }

  #topUp(held: number): void {
    if (this.isGuest || held >= POOLED || this.#toppingUp) return
    this.#toppingUp = true
    const make = async (): Promise<void> => {
      const made = await Promise.all(Array.from({ length: POOLED - held }, () => this.keyPackages.make(true)))
      const keyPackages = made.map(({ keyPackage }) => keyPackage)
      const request = { $typeName: 'static.relay.v1.UploadKeyPackageRequest', keyPackages } as const
      this.#session.request({ case: 'uploadKeyPackage', value: request }, (outcome) => {
        this.#toppingUp = false
        // Many were taken meanwhile. If it failed: the next session tells how many the relay holds.
        const left = outcome.type === 'answered' && outcome.body.case === 'uploadKeyPackage' && outcome.body.value.held
        if (left !== false && left < POOLED / 2) this.later(TOP_UP_MS, () => this.#topUp(left))
      })
    }
    make().catch((error: unknown) => {
      if (!this.#stopped) this.#fail(StaticError.from(error))
    })
  }

  #sendAcks(): void {
    const acks = this.#acks
    this.#acks = []
    if (this.#info) this.#session.ack(acks)
  }

  #tick(): void {
    const now = this.now()
    for (const membership of this.memberships.values()) membership.tick(now)
    if (now < this.#checkpointAt) return
    this.#checkpointAt = now + CHECKPOINT_MS
    try {
      this.#store.checkpoint()
    } catch (error) {
      this.#fail(StaticError.from(error))
    }
  }

  /** The store has failed: memory is ahead of the disk, and nothing of it may leave the process. */
  #fail(error: StaticError): void {
    this.#stop(error, error)
    this.#session.close().catch(() => {})
  }

  /** Nothing goes on: whatever waits, and whatever is asked from now on, gets the error. */
  #stop(error: StaticError, forReaders: StaticError | undefined): void {
    if (this.#stopped) return
    this.#stopped = true
    clearInterval(this.#ticking)
    this.#invites?.stop(forReaders)
    for (const timer of this.#timers) clearTimeout(timer)
    for (const membership of this.memberships.values()) membership.end(error, forReaders)
    this.#expectSession()
    this.#opened.reject(error)
    this.#nextSession.reject(error)
    for (const { reject } of this.#waits) reject(error)
    this.events.close()
    this.offers.close()
  }

  /** A session that has lost a request takes no other: the next one does. It may be there already. */
  async #sessionAfter(session: number): Promise<void> {
    if (this.#sessions === session) await this.#nextSession.promise
  }

  /** Whoever asks from now on waits for the next session. */
  #expectSession(): void {
    const before = this.#opened
    this.#opened = Promise.withResolvers()
    // Who waits already waits for the next one, too; nobody has to.
    this.#opened.promise.then(before.resolve, before.reject)
    before.promise.catch(() => {})
  }
}
