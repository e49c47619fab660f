/**
 * The relay as a state machine: `handle(input, now, monotonic)` returns effects and does nothing else. It has no
 * socket, clock, timer or randomness; results of asynchronous effects come back as inputs. The store decides about
 * channels, the core only keeps track of connections.
 */
import { type OverviewAgent, StaticError } from '@static/protocol'
import type { ClientMessage } from '@static/protocol/relay'
import type { Deployment, FilesPlace, StoreEvent, StreamId, Time } from '../ports.ts'
import type { Settings } from '../settings.ts'
import { BlockedAccounts } from './accounts/blocked-accounts.ts'
import { Channels } from './channels/channels.ts'
import { type CatchUpCounts, Cluster, type ClusterOptions } from './cluster/cluster.ts'
import { Delivery } from './delivery.ts'
import { Effects } from './effects.ts'
import { Files } from './files/files.ts'
import type { CoreCrypto, Effect, Input, SessionNotice } from './io.ts'
import { Joins } from './channels/joins.ts'
import { type Identity, Opening } from './sessions/opening.ts'
import { PendingRequest, type RequestBody } from './requests/pending-request.ts'
import { Presence } from './accounts/presence.ts'
import { type LeaseCounts, Quota } from './accounts/quota.ts'
import { refusalOf } from './server-messages.ts'
import { SessionTokens, type TokenCaller, UNAUTHENTICATED } from './sessions/session-token.ts'
import { Sessions, transportOf } from './sessions/sessions.ts'
import type { Session, Stream } from './sessions/stream.ts'
import { Streams } from './sessions/streams.ts'

/** The dependencies of the core. */
export interface CoreOptions {
  readonly identity: Identity
  readonly deployment: Deployment
  readonly settings: Settings
  readonly crypto: CoreCrypto
  /** Whether this node takes files. Default: not. */
  readonly filesPlace?: () => FilesPlace
  /** Undefined if no other node shares the store. */
  readonly cluster?: ClusterOptions | undefined
}

/** Numbers for the metrics. */
export interface RelayCounts {
  readonly streams: number
  readonly sessions: number
  readonly requests: number
  /** Requests to the store, the verifier and the quota source that have no result yet. */
  readonly pending: number
}

/** One relay node. */
export class Relay {
  readonly #settings: Settings
  readonly #effects = new Effects()
  readonly #streams: Streams
  readonly #sessions: Sessions
  readonly #opening: Opening
  readonly #tokens: SessionTokens
  readonly #delivery: Delivery
  readonly #channels: Channels
  readonly #joins: Joins
  readonly #files: Files
  readonly #quota: Quota
  readonly #blocked: BlockedAccounts
  readonly #presence: Presence
  readonly #cluster: Cluster | undefined
  #requests = 0
  #requestBytes = 0
  #draining = false

  constructor(options: CoreOptions) {
    const { identity, deployment, settings, crypto, cluster: clusterOptions, filesPlace = () => 'none' } = options
    this.#settings = settings
    const effects = this.#effects
    const { tokenMs, tokenTotalMs } = settings.session
    const opening = new Opening(effects, crypto, settings, identity, deployment)
    const tokens = new SessionTokens(crypto, deployment.tokenKey, tokenMs, tokenTotalMs)
    const delivery = new Delivery(effects)
    const blocked = new BlockedAccounts(effects)
    const quota = new Quota(effects, blocked)
    const presence = new Presence()
    const context = { effects, crypto, settings, delivery, presence, cluster: () => this.#cluster }
    const channels = new Channels(context, quota)
    const streams = new Streams(effects, settings.streams, (stream) => this.#closed(stream))
    const cluster =
      clusterOptions &&
      new Cluster(clusterOptions, {
        effects,
        delivery,
        keyPackages: channels.keyPackages,
        receipts: channels.receipts,
        apply: (event) => this.#apply(event),
        replace: ({ stream }) => streams.close(stream, 'replaced'),
        restart: (sessions) => this.#restart(sessions),
      })
    if (cluster) delivery.onReading = (channel, isRead) => cluster.reads(channel, isRead)
    this.#cluster = cluster
    this.#opening = opening
    this.#tokens = tokens
    this.#delivery = delivery
    this.#quota = quota
    this.#blocked = blocked
    this.#channels = channels
    this.#streams = streams
    this.#joins = new Joins(effects, crypto, settings, delivery)
    this.#files = new Files({ effects, settings, tokens, quota, blocked, place: filesPlace })
    this.#presence = presence
    const { grpcPort, files } = identity
    const shared = { effects, settings, delivery, presence, blocked }
    this.#sessions = new Sessions({ ...shared, streams, opening, tokens, channels, grpcPort, files, cluster })
  }

  /** Handles an input; returns the effects, in order. `monotonic` never jumps, even when the wall clock is set. */
  handle(input: Input, now: Time, monotonic: Time): Effect[] {
    this.#effects.now = now
    this.#effects.monotonic = monotonic
    this.#take(input)
    return this.#effects.take()
  }

  /** Whether a session token is valid now. */
  knows(token: string, now: Time): boolean {
    return this.#tokens.read(token, now) !== undefined
  }

  /** At most `limit` agents of an account seen since this node started, last seen first. */
  agentsOf(account: string, limit: number, now: Time): readonly OverviewAgent[] {
    const isConnected = (agent: string): boolean => this.#delivery.session(agent)?.account?.id === account
    return this.#presence.overview(account, isConnected, now).slice(0, limit)
  }

  /** For metrics: commits refused by rate limits since the start. */
  get throttledCommits(): number {
    return this.#channels.throttledCommits
  }

  /** For metrics: the sessions, by how their agents reach the relay. */
  get transports(): Readonly<Record<SessionNotice['transport'], number>> {
    const transports = { quic: 0, grpc: 0, proxy: 0 }
    for (const { stream } of this.#delivery.sessions()) transports[transportOf(stream)]++
    return transports
  }

  /** For metrics; undefined if there is only this node. */
  get catchUps(): CatchUpCounts | undefined {
    return this.#cluster?.catchUps
  }

  get leases(): LeaseCounts {
    return this.#quota.counts
  }

  get counts(): RelayCounts {
    let sessions = 0
    for (const _ of this.#delivery.sessions()) sessions++
    return { streams: this.#streams.size, sessions, requests: this.#requests, pending: this.#effects.pending }
  }

  #take(input: Input): void {
    switch (input.type) {
      case 'opened': {
        const stream = this.#streams.add(input.stream, input.peer, input.kind)
        const refusal = this.#draining ? ({ refused: 'unavailable' } as const) : this.#streams.refusal(stream)
        const isFull = input.peer.full !== undefined || (refusal && 'redirectPort' in refusal)
        if (refusal) this.#streams.close(stream, isFull ? 'full' : 'busy', refusal)
        return
      }
      case 'done':
        this.#effects.done(input.id, input.outcome)
        return
      case 'partAsked':
        this.#files.ask(input.id, input.ask)
        return
      case 'partStored':
        this.#files.stored(input.id, input.checksum)
        return
      case 'partOver':
        this.#files.over(input.id)
        return
      case 'event':
        this.#apply(input.event)
        this.#cluster?.happened(input.event)
        return
      case 'news':
        this.#cluster?.news(input.news, input.from)
        return
      case 'doubt':
        this.#cluster?.doubt()
        return
      case 'disperse':
        this.#restart([...this.#delivery.sessions()])
        return
      case 'tick':
        this.#tick()
        return
      case 'drain':
        this.#drain()
        return
      case 'received':
      case 'acknowledged':
      case 'malformed':
      case 'closed':
      case 'congested':
      case 'drained':
      case 'flooded':
      case 'stalled': {
        const stream = this.#streams.get(input.stream)
        // Undefined for inputs that were on their way when the stream ended.
        if (stream) this.#onStream(stream, input)
      }
    }
  }

  #apply(event: StoreEvent): void {
    this.#delivery.handle(event)
    this.#joins.handle(event)
    if (event.type === 'welcomed') this.#channels.welcomed(event.agent)
    if (event.type === 'deleted' || event.type === 'ownerChanged') this.#channels.forget(event.channel)
  }

  /** Ends sessions so that their agents reconnect, to another node if there is one. */
  #restart(sessions: Iterable<Session>): void {
    for (const { stream } of sessions) this.#streams.close(stream, 'shutdown')
  }

  #onStream(stream: Stream, input: Extract<Input, { stream: StreamId }>): void {
    switch (input.type) {
      case 'received':
        this.#received(stream, input.message, input.bytes)
        return
      case 'acknowledged':
        this.#sessions.acknowledged(stream, input.ack)
        return
      case 'malformed':
        this.#streams.close(stream, 'malformed', refusalOf(input.error))
        return
      case 'closed':
        this.#streams.remove(stream)
        return
      case 'congested':
        stream.congested = true
        return
      case 'drained':
        stream.congested = false
        if (stream.session) this.#delivery.drained(stream.session)
        return
      case 'flooded':
      case 'stalled':
        this.#streams.close(stream, input.type === 'flooded' ? 'tooMany' : 'slow')
        return
      case 'opened':
    }
  }

  #closed(stream: Stream): void {
    this.#joins.closed(stream)
    this.#channels.gone(stream)
    this.#sessions.closed(stream)
  }

  #tick(): void {
    this.#sessions.tick()
    this.#delivery.tick()
    this.#channels.tick()
    this.#joins.tick()
    this.#quota.tick()
    this.#cluster?.tick()
    this.#blocked.tick(
      () => this.#accounts(),
      (account, reason) => {
        this.#quota.block(account, reason)
        this.#sessions.block(account, reason)
      },
    )
  }

  /** The accounts that use the relay: with a session, or with quota for guests in their channels. */
  *#accounts(): Iterable<string> {
    for (const session of this.#delivery.sessions()) {
      const account = this.#blocked.accountOf(session)
      if (account !== undefined) yield account
    }
    yield* this.#quota.accounts()
  }

  /** Ends each stream once its requests are answered, and accepts no new requests. */
  #drain(): void {
    this.#draining = true
    this.#joins.drain()
    for (const stream of this.#streams.all()) if (stream.requests === 0) this.#streams.close(stream, 'shutdown')
    this.#quota.close()
  }

  // ---- Requests ----

  #received(stream: Stream, message: ClientMessage, bytes: number): void {
    const { body, requestId, sessionToken } = message
    const { requests, requestBytes, totalRequestBytes } = this.#settings.streams
    if (body.case === undefined || requestId === 0n) {
      return this.#streams.close(stream, 'malformed', {
        refused: 'invalid_request',
        message: 'A request must have a `request_id` above 0 and a body.',
      })
    }
    const full = stream.requests >= requests || stream.requestBytes + bytes > requestBytes
    if (full) return this.#streams.close(stream, 'tooMany')
    stream.requests++
    stream.requestBytes += bytes
    this.#requests++
    this.#requestBytes += bytes
    // A request counts until it is answered, even if its stream has ended.
    const settled = (): void => {
      stream.requests--
      stream.requestBytes -= bytes
      this.#requests--
      this.#requestBytes -= bytes
      const last = this.#draining && stream.requests === 0 && stream.kind !== 'call'
      if (last && this.#streams.has(stream)) this.#streams.close(stream, 'shutdown')
    }
    const token = this.#token(stream, sessionToken)
    const renewed = token && this.#tokens.renew(token, this.#effects.now)
    const caller = stream.session ?? token ?? UNAUTHENTICATED
    const request = new PendingRequest(this.#effects, stream, caller, requestId, renewed, settled)
    this.#sessions.used(stream)
    if (token) {
      if (!this.#streams.admits(stream, token.account?.id)) return request.abandon()
      this.#streams.enter(stream, token.account?.id)
    }
    this.#attempt(request, body, () => {
      if (this.#draining) throw StaticError.of('unavailable', 'The relay is shutting down. Reconnect.')
      if (this.#requestBytes > totalRequestBytes) throw StaticError.of('unavailable', 'The relay is busy. Retry later.')
      if (!this.#cluster || this.#cluster.isListening) return this.#dispatch(request, body, token)
      this.#cluster.listen((outcome) => {
        if (!this.#streams.has(stream)) return request.abandon()
        this.#attempt(request, body, () => {
          if (!outcome.ok) throw outcome.error
          this.#dispatch(request, body, token)
        })
      })
    })
  }

  #attempt(request: PendingRequest, body: RequestBody, act: () => void): void {
    try {
      act()
    } catch (error) {
      if (!(error instanceof StaticError)) this.#effects.report(error)
      const { caller, stream } = request
      // A peer that fails to authenticate is disconnected, and so is a subscription whose Resume fails.
      const over = caller === UNAUTHENTICATED && stream.kind === 'session' && body.case === 'openSession'
      if (over || stream.kind === 'subscribe') this.#sessions.refuseOpening(request, refusalOf(error))
      else request.refuse(refusalOf(error))
    }
  }

  /** The caller in a session token: of a call, a subscription, or forwarded by a proxy. */
  #token(stream: Stream, text: string): TokenCaller | undefined {
    if (text === '' || (stream.kind === 'session' && stream.proxyRevision === undefined)) return undefined
    return this.#tokens.read(text, this.#effects.now)
  }

  #dispatch(request: PendingRequest, body: RequestBody, token: TokenCaller | undefined): void {
    this.#streams.checkRequest(request.stream)
    switch (body.case) {
      case 'proxyHello':
        return this.#sessions.proxyHello(request, body.value)
      case 'getChallenge':
        return request.answer(this.#opening.challenge(request.stream, body.value))
      case 'openSession':
        return this.#sessions.open(request, body.value)
      default:
    }
    if (request.caller === UNAUTHENTICATED) {
      throw StaticError.of(
        'auth_failed',
        'The request is not authenticated. Open a session first, or send a session token that has not expired.',
      )
    }
    const blocked = this.#blocked.stops(request.caller)
    if (blocked !== undefined) throw StaticError.of(blocked)
    const { account, agent } = request.caller
    if (account) this.#presence.saw(agent, account, this.#effects.now)
    this.#authorized(request, body, token)
  }

  #authorized(
    request: PendingRequest,
    body: Exclude<RequestBody, { case: 'proxyHello' | 'getChallenge' | 'openSession' }>,
    token: TokenCaller | undefined,
  ): void {
    switch (body.case) {
      case 'refreshSession':
        return this.#sessions.refresh(request, body.value, token)
      case 'resume':
        return this.#sessions.resume(request, body.value, token)
      case 'registerInvite':
        return this.#joins.register(request, body.value)
      case 'revokeInvite':
        return this.#joins.revoke(request, body.value)
      case 'requestJoin':
        return this.#joins.request(request, body.value)
      case 'pollJoinRequests':
        return this.#joins.poll(request, body.value)
      case 'answerJoin':
        return this.#joins.answer(request, body.value)
      case 'beginFile':
        return this.#files.begin(request, body.value)
      case 'fileStatus':
        return this.#files.status(request, body.value)
      case 'dropFile':
        return this.#files.drop(request, body.value)
      default:
        return this.#channels.handle(request, body)
    }
  }
}
