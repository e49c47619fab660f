/**
 * The relay as a state machine: `handle(input, now)` gives the effects, and nothing else happens here. No socket, clock,
 * timer or randomness; what takes time comes back as an input. The store decides about channels, this only remembers who
 * is connected.
 */
import { ENVELOPE_LIMITS, fromHex, StaticError } from '@static/protocol'
import { type AckRequest, type ClientMessage, type OpenSessionResponse, Purpose } from '@static/protocol/relay'
import type { Deployment, Peer, StreamId, Time } from '../ports.ts'
import type { Settings } from '../settings.ts'
import { addressKey, addressText } from './address.ts'
import { Channels } from './channels.ts'
import { Clocks } from './clocks.ts'
import { Delivery } from './delivery.ts'
import { Effects } from './effects.ts'
import type { Crypto, Effect, Input, StreamKind } from './io.ts'
import { Joins } from './joins.ts'
import { type Closing, closingMessage, refusalOf, type RefusalDetails, serverMessage } from './messages.ts'
import { type Identity, Opening } from './opening.ts'
import { Quota } from './quota.ts'
import { Rates } from './rates.ts'
import { wrong } from './request-fields.ts'
import { type Caller, SessionTokens, type TokenCaller } from './session-token.ts'
import { Request, type RequestBody, type Session, type Stream } from './stream.ts'

/** What a relay is made with. */
export interface RelayOptions {
  readonly identity: Identity
  readonly deployment: Deployment
  readonly settings: Settings
  readonly crypto: Crypto
}

/** What the metrics show. */
export interface RelayCounts {
  readonly streams: number
  readonly sessions: number
  readonly requests: number
  /** Questions to the store, the verifier and the quota source that have not come back. */
  readonly pending: number
}

/** Who has not shown who it is. */
const NOBODY: Caller = {
  agent: '',
  publicKey: new Uint8Array(),
  account: undefined,
  nonce: new Uint8Array(),
  traffic: 'off',
  cellsPerSecond: 0,
  expiresAt: undefined,
}

const NO_CLOCK = 'The relay has no room for another session with a clock now: try again, or another traffic profile.'

/** One relay node. */
export class Relay {
  readonly #settings: Settings
  readonly #effects = new Effects()
  readonly #streams = new Map<StreamId, Stream>()
  readonly #unopened = new Set<Stream>()
  readonly #addresses = new Map<string, { streams: number; unopened: number }>()
  readonly #openings: Rates
  readonly #calls: Rates
  readonly #clocks: Clocks
  readonly #opening: Opening
  readonly #tokens: SessionTokens
  readonly #delivery: Delivery
  readonly #channels: Channels
  readonly #joins: Joins
  readonly #quota: Quota
  #requests = 0
  #requestBytes = 0
  #draining = false

  constructor({ identity, deployment, settings, crypto }: RelayOptions) {
    this.#settings = settings
    const { session, streams } = settings
    this.#openings = new Rates(streams.openingsPerSecond, streams.openingsBurst)
    this.#calls = new Rates(streams.callsPerSecond, streams.callsBurst)
    this.#clocks = new Clocks(streams.clockedCells)
    this.#opening = new Opening(this.#effects, crypto, settings, identity, deployment)
    this.#tokens = new SessionTokens(crypto, deployment.tokenKey, session.tokenMs, session.tokenTotalMs)
    this.#delivery = new Delivery(this.#effects)
    this.#quota = new Quota(this.#effects)
    this.#channels = new Channels(this.#effects, crypto, settings, this.#delivery, this.#quota)
    this.#joins = new Joins(this.#effects, crypto, settings, this.#delivery)
  }

  /** Takes what happened; returns what is to be done, in order. */
  handle(input: Input, now: Time): Effect[] {
    this.#effects.now = now
    this.#take(input)
    return this.#effects.take()
  }

  /** Whether this is a session token that would be taken now. */
  knows(token: string, now: Time): boolean {
    return this.#tokens.read(token, now) !== undefined
  }

  /** For metrics. */
  get counts(): RelayCounts {
    let sessions = 0
    for (const _ of this.#delivery.sessions()) sessions++
    return { streams: this.#streams.size, sessions, requests: this.#requests, pending: this.#effects.pending }
  }

  #take(input: Input): void {
    switch (input.type) {
      case 'opened':
        this.#opened(input.stream, input.peer, input.kind)
        return
      case 'done':
        this.#effects.done(input.id, input.outcome)
        return
      case 'event':
        this.#delivery.handle(input.event)
        this.#joins.handle(input.event)
        if (input.event.type === 'welcomed') this.#channels.becameMember(input.event.agent)
        if (input.event.type === 'deleted') this.#channels.forget(input.event.channel)
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
      case 'stalled': {
        const stream = this.#streams.get(input.stream)
        // What was on its way when the stream ended.
        if (stream) this.#onStream(stream, input)
      }
    }
  }

  #onStream(stream: Stream, input: Extract<Input, { stream: StreamId }>): void {
    switch (input.type) {
      case 'received':
        this.#received(stream, input.message, input.bytes)
        return
      case 'acknowledged':
        this.#acknowledged(stream, input.ack)
        return
      case 'malformed':
        this.#close(stream, 'malformed', refusalOf(input.error))
        return
      case 'closed':
        this.#remove(stream)
        return
      case 'congested':
        stream.congested = true
        return
      case 'drained':
        stream.congested = false
        if (stream.session) this.#delivery.drained(stream.session)
        return
      case 'stalled':
        this.#close(stream, 'slow')
        return
      case 'opened':
    }
  }

  // ---- Streams ----

  #opened(id: StreamId, peer: Peer, kind: StreamKind): void {
    const stream: Stream = {
      id,
      peer,
      kind,
      openedAt: this.#effects.now,
      address: addressKey(peer.address),
      proxyRevision: undefined,
      challenge: undefined,
      opening: false,
      session: undefined,
      congested: false,
      requests: 0,
      requestBytes: 0,
    }
    this.#streams.set(id, stream)
    if (kind !== 'call') this.#unopened.add(stream)
    this.#count(stream, 1, kind === 'call' ? 0 : 1)
    const refusal = this.#draining ? ({ refused: 'unavailable' } as const) : this.#turnedAway(stream)
    if (refusal) this.#close(stream, 'busy', refusal)
  }

  /** Whether there is no room for a stream, from this address or at all. A proxy's streams count for its agents. */
  #turnedAway(stream: Stream): RefusalDetails | undefined {
    const { total, perAddress, unauthenticatedPerAddress } = this.#settings.streams
    const { redirectPort } = stream.peer
    if (redirectPort !== undefined) {
      return { refused: 'unavailable', redirectPort, message: `This port is full: dial port ${redirectPort}.` }
    }
    if (this.#streams.size > total) return { refused: 'unavailable', retryAfterMs: 5000 }
    if (stream.peer.proxy && stream.proxyRevision === undefined) return undefined
    const counts = this.#addresses.get(stream.address) ?? { streams: 0, unopened: 0 }
    const rates = stream.kind === 'call' ? this.#calls : this.#openings
    const wait = rates.take(stream.address, this.#effects.now)
    if (counts.streams > perAddress || counts.unopened > unauthenticatedPerAddress || wait > 0) {
      return { refused: 'rate_limited', retryAfterMs: Math.max(wait, 1000), message: 'Too many from this address.' }
    }
    return undefined
  }

  #count(stream: Stream, streams: number, unopened: number): void {
    const counts = this.#addresses.get(stream.address) ?? { streams: 0, unopened: 0 }
    counts.streams += streams
    counts.unopened += unopened
    if (counts.streams > 0) this.#addresses.set(stream.address, counts)
    else this.#addresses.delete(stream.address)
  }

  #remove(stream: Stream): void {
    if (!this.#streams.delete(stream.id)) return
    this.#clocks.stop(stream.id)
    this.#count(stream, -1, this.#unopened.delete(stream) ? -1 : 0)
    this.#joins.closed(stream)
    if (!stream.session) return
    this.#channels.storeAcknowledged(stream.session)
    this.#delivery.leave(stream.session)
  }

  /** Says the last word and ends the stream. */
  #close(stream: Stream, closing: Closing, refusal?: RefusalDetails): void {
    const message = closingMessage(closing, refusal)
    // A unary call has one answer, whatever it says.
    const error = message.body.case === 'sessionClosing' ? message.body.value.error : undefined
    const last = stream.kind === 'call' && error ? serverMessage({ case: 'error', value: error }) : message
    this.#effects.send([stream.id], last)
    this.#effects.end(stream.id)
    this.#remove(stream)
  }

  #tick(): void {
    const { now } = this.#effects
    const { openMs, graceMs } = this.#settings.session
    for (const stream of this.#unopened) {
      if (now - stream.openedAt > openMs) this.#close(stream, 'unopened')
    }
    for (const { expiresAt, stream } of this.#delivery.sessions()) {
      if (expiresAt !== undefined && now > expiresAt + graceMs) this.#close(stream, 'expired')
    }
    this.#delivery.tick()
    this.#channels.tick()
    this.#joins.tick()
    this.#quota.tick()
  }

  /** Streams end when what they asked for has been answered; nothing new is taken. */
  #drain(): void {
    this.#draining = true
    this.#joins.drain()
    for (const stream of this.#streams.values()) if (stream.requests === 0) this.#close(stream, 'shutdown')
    this.#quota.close()
  }

  // ---- Requests ----

  #received(stream: Stream, message: ClientMessage, bytes: number): void {
    const { body, requestId, sessionToken } = message
    const { requests, requestBytes, totalRequestBytes } = this.#settings.streams
    if (body.case === undefined || requestId === 0n) {
      return this.#close(stream, 'malformed', {
        refused: 'invalid_request',
        message: 'A request has an id and a body.',
      })
    }
    const full = stream.requests >= requests || stream.requestBytes + bytes > requestBytes
    if (full) return this.#close(stream, 'busy', { refused: 'rate_limited', message: 'Too many open requests.' })
    stream.requests++
    stream.requestBytes += bytes
    this.#requests++
    this.#requestBytes += bytes
    // What waits is held until it is answered, also when its stream is gone.
    const settled = (): void => {
      stream.requests--
      stream.requestBytes -= bytes
      this.#requests--
      this.#requestBytes -= bytes
      const last = this.#draining && stream.requests === 0 && stream.kind !== 'call'
      if (last && this.#streams.has(stream.id)) this.#close(stream, 'shutdown')
    }
    const token = this.#token(stream, sessionToken)
    const renewed = token && this.#tokens.renew(token, this.#effects.now)
    const caller = stream.session ?? token ?? NOBODY
    const request = new Request(this.#effects, stream, caller, requestId, renewed, settled)
    try {
      if (this.#draining) throw StaticError.of('unavailable', 'The relay is stopping: dial again.')
      if (this.#requestBytes > totalRequestBytes) throw StaticError.of('unavailable', 'The relay is busy.')
      this.#dispatch(request, body, token)
    } catch (error) {
      if (!(error instanceof StaticError)) this.#effects.report(error)
      // Who is nobody and does not become somebody is not kept waiting, and without its resume a subscription is none.
      const over = caller === NOBODY && stream.kind === 'session' && body.case === 'openSession'
      if (over || stream.kind === 'subscribe') this.#refuseOpening(request, refusalOf(error))
      else request.refuse(refusalOf(error))
    }
  }

  /** The caller by its session token: of a call, of a subscription, or passed on by a proxy. */
  #token(stream: Stream, text: string): TokenCaller | undefined {
    if (text === '' || (stream.kind === 'session' && stream.proxyRevision === undefined)) return undefined
    const token = this.#tokens.read(text, this.#effects.now)
    // A proxy's stream for a call: it may wait as long as the call does.
    if (token && this.#unopened.delete(stream)) this.#count(stream, 0, -1)
    return token
  }

  #dispatch(request: Request, body: RequestBody, token: TokenCaller | undefined): void {
    const { stream } = request
    switch (body.case) {
      case 'proxyHello':
        return this.#proxyHello(request, body.value.revision, body.value.agentAddress)
      case 'getChallenge':
        return request.answer(this.#opening.challenge(stream, body.value))
      case 'openSession': {
        if (stream.session || stream.opening) throw wrong('a session is opened once')
        const unary = body.value.purpose === Purpose.UNARY
        const allowed = unary ? stream.kind === 'call' || stream.proxyRevision !== undefined : stream.kind === 'session'
        if (!allowed) throw wrong('purpose is SESSION on a session stream and UNARY on a call')
        stream.opening = true
        return this.#opening.open(stream, body.value, (outcome) => {
          if (!outcome.ok) this.#refuseOpening(request, refusalOf(outcome.error))
          else if (unary) this.#answerUnary(request, outcome.value)
          else this.#enter(request, outcome.value)
        })
      }
      default:
    }
    if (request.caller === NOBODY) {
      throw StaticError.of('auth_failed', 'Open a session first, or send a session token that has not run out.')
    }
    this.#authorized(request, body, token)
  }

  #authorized(
    request: Request,
    body: Exclude<RequestBody, { case: 'proxyHello' | 'getChallenge' | 'openSession' }>,
    token: TokenCaller | undefined,
  ): void {
    switch (body.case) {
      case 'refreshSession':
        return this.#opening.refresh(request.stream, request.caller, body.value, (outcome) => {
          if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
          this.#refreshed(request, { ...request.caller, ...outcome.value }, token)
        })
      case 'createChannel':
        return this.#channels.create(request, body.value)
      case 'deleteChannel':
        return this.#channels.delete(request, body.value)
      case 'uploadKeyPackage':
        return this.#channels.upload(request, body.value)
      case 'addMember':
        return this.#channels.add(request, body.value)
      case 'sendCommit':
        return this.#channels.commit(request, body.value)
      case 'rejectCommit':
        return this.#channels.reject(request, body.value)
      case 'liftBar':
        return this.#channels.liftBar(request, body.value)
      case 'sendWelcome':
        return this.#channels.welcome(request, body.value)
      case 'sendMessage':
        return this.#channels.send(request, body.value)
      case 'leave':
        return this.#channels.leave(request, body.value)
      case 'resume':
        return this.#resume(request, body.value, token)
      case 'ack':
        return this.#channels.acknowledge(request.caller.agent, body.value, (outcome) => {
          if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
          request.answer({ case: 'ack', value: { $typeName: 'static.relay.v1.AckResponse' } })
        })
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
    }
  }

  #proxyHello(request: Request, revision: number, address: Uint8Array): void {
    const { stream } = request
    if (!stream.peer.proxy || stream.proxyRevision !== undefined || stream.session) {
      throw StaticError.of('not_allowed', 'Only a proxy that the relay knows says hello, once.')
    }
    if (revision < 1) throw wrong('revision is at least 1')
    const text = addressText(address)
    if (text === undefined) throw wrong('agent_address has 4 or 16 bytes')
    this.#count(stream, -1, -1)
    stream.proxyRevision = revision
    stream.address = addressKey(text)
    this.#count(stream, 1, 1)
    const refusal = this.#turnedAway(stream)
    if (refusal) {
      request.abandon()
      return this.#close(stream, 'busy', refusal)
    }
    // The proxy holds agents to their limits until their sessions are open; a call has its one message to come.
    this.#effects.limit(stream.id, ENVELOPE_LIMITS.member)
    request.answer({ case: 'proxyHello', value: { $typeName: 'static.relay.v1.ProxyHelloResponse' } })
  }

  // ---- Sessions ----

  #refuseOpening(request: Request, refusal: RefusalDetails): void {
    const { stream } = request
    request.refuse(refusal)
    if (stream.kind === 'call' || !this.#streams.has(stream.id)) return
    this.#effects.end(stream.id)
    this.#remove(stream)
  }

  #enter(request: Request, caller: Caller): void {
    const { stream } = request
    // Which channels hold this agent decides how long its envelopes may be.
    const nothing = { agent: caller.agent, channels: [], after: undefined, limit: 0 }
    this.#effects.store('resume', nothing, (outcome) => {
      if (!this.#streams.has(stream.id)) return request.abandon()
      if (!outcome.ok) return this.#refuseOpening(request, refusalOf(outcome.error))
      if (!this.#clocks.start(stream.id, caller)) {
        return this.#refuseOpening(request, refusalOf(StaticError.of('unavailable', NO_CLOCK, { retryAfter: 60 })))
      }
      this.#begin(stream, caller)
      const { member } = outcome.value
      this.#effects.limit(stream.id, member ? ENVELOPE_LIMITS.member : ENVELOPE_LIMITS.authenticated)
      this.#effects.shape(stream.id, caller.traffic, caller.cellsPerSecond)
      request.answer({ case: 'openSession', value: this.#openSession(caller, undefined, caller.expiresAt) })
    })
  }

  #begin(stream: Stream, caller: Caller): Session {
    const session: Session = {
      ...caller,
      stream,
      subscriptions: new Map(),
      sent: new Map(),
      behind: new Set(),
      reading: false,
      resumed: false,
      acknowledged: new Map(),
      welcomes: { waiting: false, more: false, after: 0 },
    }
    stream.session = session
    if (this.#unopened.delete(stream)) this.#count(stream, 0, -1)
    const older = this.#delivery.enter(session)
    if (older) this.#close(older.stream, 'replaced')
    return session
  }

  #answerUnary(request: Request, caller: Caller): void {
    const { token, validUntil } = this.#tokens.make(caller, this.#effects.now, this.#effects.now)
    request.stream.opening = false
    request.answer({ case: 'openSession', value: this.#openSession(caller, token, validUntil) })
  }

  #openSession(caller: Caller, sessionToken: string | undefined, until: Time | undefined): OpenSessionResponse {
    const { now } = this.#effects
    const { pingMs, pongMs } = this.#settings.session
    return {
      $typeName: 'static.relay.v1.OpenSessionResponse',
      agentId: fromHex(caller.agent),
      expiresInMs: until === undefined ? 0 : Math.max(1, until - now),
      sessionToken: sessionToken ?? '',
      pingIntervalMs: pingMs,
      pingTimeoutMs: pongMs,
      keyPackages: this.#channels.keyPackages.held(caller.agent, now),
    }
  }

  #refreshed(request: Request, caller: Caller, token: TokenCaller | undefined): void {
    const { now } = this.#effects
    const { session } = request.stream
    if (session) session.expiresAt = caller.expiresAt
    const made = token && this.#tokens.make(caller, now, now)
    const until = made?.validUntil ?? caller.expiresAt ?? now
    request.answer({
      case: 'refreshSession',
      value: {
        $typeName: 'static.relay.v1.RefreshSessionResponse',
        expiresInMs: Math.max(1, until - now),
        sessionToken: made?.token ?? '',
      },
    })
  }

  #resume(request: Request, value: Extract<RequestBody, { case: 'resume' }>['value'], token?: TokenCaller): void {
    const { stream } = request
    // A subscription: the stream of pushes of a unary session begins with this.
    const subscribes = stream.kind === 'subscribe' || (stream.kind === 'session' && !stream.session && token)
    const session = stream.session ?? (subscribes && token ? this.#begin(stream, token) : undefined)
    if (session) return this.#channels.resume(request, session, value)
    // One unary call: the standings alone.
    this.#channels.standings(request, value)
  }

  #acknowledged(stream: Stream, ack: AckRequest): void {
    const { session } = stream
    if (!session) return this.#close(stream, 'malformed', { refused: 'auth_failed' })
    try {
      this.#channels.acknowledgeLater(session, ack)
    } catch (error) {
      this.#close(stream, 'malformed', refusalOf(error))
    }
  }
}
