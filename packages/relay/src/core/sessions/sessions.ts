/** Sessions after authentication: they begin, are refreshed, resume, and end with their token. */
import { ENVELOPE_LIMITS, fromHex, message, OLDEST_REVISION, StaticError } from '@static/protocol'
import {
  type AckRequest,
  type OpenSessionRequest,
  type OpenSessionResponse,
  OpenSessionResponseSchema,
  type ProxyHelloRequest,
  ProxyHelloResponseSchema,
  Purpose,
  type RefreshSessionRequest,
  RefreshSessionResponseSchema,
  type ResumeRequest,
} from '@static/protocol/relay'
import type { BlockReason, Time } from '../../ports.ts'
import type { Settings } from '../../settings.ts'
import { addressText } from './address.ts'
import type { BlockedAccounts } from '../accounts/blocked-accounts.ts'
import type { Channels } from '../channels/channels.ts'
import { Clocks } from './clocks.ts'
import type { Cluster } from '../cluster/cluster.ts'
import type { Delivery } from '../delivery.ts'
import type { Effects } from '../effects.ts'
import { excessRefusal } from './limits.ts'
import { type Identity, type Opening, tooOld } from './opening.ts'
import type { PendingRequest } from '../requests/pending-request.ts'
import type { Presence } from '../accounts/presence.ts'
import { wrong } from '../requests/request-fields.ts'
import { type RefusalDetails, refusalOf } from '../server-messages.ts'
import type { Caller, SessionTokens, TokenCaller } from './session-token.ts'
import type { Session, Stream } from './stream.ts'
import type { Streams } from './streams.ts'

const WRONG_CLOCK = "This relay node's clock is wrong, so that it takes no new sessions. Connect to another node."
/** How long an agent should wait when no clock is free. */
const CLOCK_MS = 60_000

const EARLY_ACK = 'An acknowledgement came before the session was open. Open the session first.'

/** The dependencies of sessions. */
export interface SessionsOptions {
  readonly effects: Effects
  readonly settings: Settings
  readonly streams: Streams
  readonly opening: Opening
  readonly tokens: SessionTokens
  readonly delivery: Delivery
  readonly channels: Channels
  readonly blocked: BlockedAccounts
  /** The TCP port of gRPC; 0 until it is known. */
  readonly grpcPort: () => number
  /** Where the parts of files are, if anywhere. */
  readonly files: Identity['files']
  readonly presence: Presence
  /** Undefined if there is only this node. */
  readonly cluster: Cluster | undefined
}

export class Sessions {
  readonly #options: SessionsOptions
  readonly #clocks: Clocks

  constructor(options: SessionsOptions) {
    this.#options = options
    this.#clocks = new Clocks(options.settings.streams.clockedCells)
  }

  /** A stand-alone proxy names the address of the agent behind this stream, and says whether it is for a call. */
  proxyHello(request: PendingRequest, { revision, agentAddress, call }: ProxyHelloRequest): void {
    const { effects, streams } = this.#options
    const { stream } = request
    if (!stream.peer.proxy || stream.proxyRevision !== undefined || stream.session) {
      throw StaticError.of(
        'not_allowed',
        'Only a proxy with a trusted certificate may send ProxyHello, once per stream.',
      )
    }
    if (revision < OLDEST_REVISION) throw tooOld('proxy', revision)
    const address = addressText(agentAddress)
    if (address === undefined) throw wrong(`\`agent_address\` must be 4 or 16 bytes, not ${agentAddress.length}`)
    streams.proxied(stream, { revision, address, call })
    const refusal = streams.refusal(stream)
    if (refusal) {
      request.abandon()
      return streams.close(stream, 'busy', refusal)
    }
    // The proxy enforces the agents' limits until their sessions are open; a call has only one message to send.
    effects.limit(stream.id, ENVELOPE_LIMITS.member)
    request.answer({ case: 'proxyHello', value: message(ProxyHelloResponseSchema, {}) })
  }

  open(request: PendingRequest, value: OpenSessionRequest): void {
    const { stream } = request
    if (stream.session || stream.opening)
      throw wrong('This stream already has a session. Open another stream for a new one')
    const unary = value.purpose === Purpose.UNARY
    const allowed = unary ? stream.kind === 'call' || stream.proxyRevision !== undefined : stream.kind === 'session'
    if (!allowed) throw wrong('`purpose` must be SESSION on a session stream and UNARY in a call')
    const { cluster } = this.#options
    // Open sessions stay: only expiry times would be judged differently here than elsewhere.
    if (cluster && !cluster.isClockRight) {
      return this.refuseOpening(request, refusalOf(StaticError.of('unavailable', WRONG_CLOCK, { retryAfter: 5 })))
    }
    stream.opening = true
    this.#options.opening.open(stream, value, (outcome) => {
      if (!outcome.ok) return this.refuseOpening(request, refusalOf(outcome.error))
      const reason = this.#options.blocked.stops(outcome.value)
      if (reason !== undefined) this.refuseOpening(request, { refused: reason })
      else {
        this.#options.blocked.opened(outcome.value)
        if (unary) this.#answerUnary(request, outcome.value)
        else this.#enter(request, outcome.value)
      }
    })
  }

  /** Refuses to open a session, and ends the stream unless it is a call. */
  refuseOpening(request: PendingRequest, refusal: RefusalDetails): void {
    const { streams } = this.#options
    const { stream } = request
    request.refuse(refusal)
    if (stream.kind !== 'call' && streams.has(stream)) streams.end(stream)
  }

  refresh(request: PendingRequest, value: RefreshSessionRequest, token: TokenCaller | undefined): void {
    this.#options.opening.refresh(request.stream, request.caller, value, (outcome) => {
      if (!outcome.ok) return request.refuse(refusalOf(outcome.error))
      this.#refreshed(request, { ...request.caller, ...outcome.value }, token)
    })
  }

  resume(request: PendingRequest, value: ResumeRequest, token: TokenCaller | undefined): void {
    const { stream } = request
    // A subscription, the push stream of a unary session, starts with Resume.
    const subscribes = stream.kind === 'subscribe' || (stream.kind === 'session' && !stream.session && token)
    const session = stream.session ?? (subscribes && token ? this.#begin(stream, token) : undefined)
    this.#options.channels.resume(request, session, value)
  }

  /** An acknowledgement in its own cell. */
  acknowledged(stream: Stream, ack: AckRequest): void {
    const { streams, channels } = this.#options
    const { session } = stream
    if (!session) return streams.close(stream, 'malformed', { refused: 'auth_failed', message: EARLY_ACK })
    try {
      channels.acknowledge(session, ack)
    } catch (error) {
      streams.close(stream, 'malformed', refusalOf(error))
    }
  }

  /** Called when a request came on a stream: it gives way later than streams without one. */
  used(stream: Stream): void {
    this.#options.streams.used(stream)
    this.#clocks.used(stream)
  }

  /** Ends the sessions of an account that is blocked from now on. */
  block(account: string, reason: BlockReason): void {
    const { streams, delivery, blocked } = this.#options
    for (const session of delivery.sessions()) {
      if (blocked.accountOf(session) === account) streams.close(session.stream, reason)
    }
  }

  /** Called when a stream has ended, and with it its session. */
  closed(stream: Stream): void {
    this.#clocks.stop(stream)
    if (!stream.session) return
    const { channels, delivery } = this.#options
    this.#note(stream.session)
    channels.closed(stream.session)
    delivery.leave(stream.session)
  }

  /** Ends streams that were not opened in time and sessions whose token has expired. */
  tick(): void {
    const { effects, settings, streams, delivery } = this.#options
    const { now, monotonic } = effects
    const { openMs, graceMs } = settings.session
    for (const stream of streams.unopened()) {
      if (monotonic - stream.openedAt > openMs) streams.close(stream, 'unopened')
    }
    for (const { expiresAt, stream } of delivery.sessions()) {
      if (expiresAt !== undefined && now > expiresAt + graceMs) streams.close(stream, 'expired')
    }
  }

  #enter(request: PendingRequest, caller: Caller): void {
    const { effects, streams } = this.#options
    const { stream } = request
    // Whether the agent is a member of any channel decides how long its envelopes may be.
    const nothing = { agent: caller.agent, channels: [], after: undefined, limit: 0 }
    effects.store('resume', nothing, (outcome) => {
      if (!streams.has(stream)) return request.abandon()
      if (!outcome.ok) return this.refuseOpening(request, refusalOf(outcome.error))
      if (!streams.admits(stream, caller.account?.id)) return request.abandon()
      const refusal = this.#startClock(stream, caller)
      if (refusal) return this.refuseOpening(request, refusal)
      streams.enter(stream, caller.account?.id)
      this.#begin(stream, caller)
      const { member } = outcome.value
      effects.limit(stream.id, member ? ENVELOPE_LIMITS.member : ENVELOPE_LIMITS.authenticated)
      effects.shape(stream.id, caller.traffic, caller.cellsPerSecond)
      request.answer({ case: 'openSession', value: this.#opened(caller, undefined, caller.expiresAt) })
    })
  }

  /** Returns a refusal if there is no clock for a session. */
  #startClock(stream: Stream, caller: Caller): RefusalDetails | undefined {
    const { effects, settings, streams } = this.#options
    const value = settings.streams.clockedCells
    const refusal = excessRefusal('clockedCells', value, CLOCK_MS)
    const { taken, ousted } = this.#clocks.start(stream, caller)
    for (const other of ousted) streams.close(other, 'busy', refusal)
    if (taken) return undefined
    effects.excess({ limit: 'clockedCells', value, address: stream.address })
    return refusal
  }

  #begin(stream: Stream, caller: Caller): Session {
    const { effects, streams, delivery, cluster } = this.#options
    const session: Session = {
      ...caller,
      stream,
      since: cluster?.time ?? effects.now,
      begunAt: effects.monotonic,
      subscriptions: new Map(),
      stays: new Map(),
      behind: new Set(),
      reading: false,
      resumed: false,
      acknowledged: new Map(),
      unstored: 0,
      welcomes: { waiting: false, more: false, after: 0, yields: false, before: new Set() },
    }
    stream.session = session
    this.#note(session)
    const older = delivery.enter(session)
    if (older) streams.close(older.stream, 'replaced')
    cluster?.entered(session)
    const { agent, account } = caller
    effects.began(stream.id, { agent, account: account?.id, address: stream.address, transport: transportOf(stream) })
    return session
  }

  #note({ agent, account }: Caller): void {
    const { presence, effects } = this.#options
    if (account) presence.saw(agent, account, effects.now)
  }

  #answerUnary(request: PendingRequest, caller: Caller): void {
    const { effects, tokens } = this.#options
    const { token, validUntil } = tokens.make(caller, effects.now, effects.now)
    request.stream.opening = false
    request.answer({ case: 'openSession', value: this.#opened(caller, token, validUntil) })
  }

  #opened(caller: Caller, sessionToken: string | undefined, until: Time | undefined): OpenSessionResponse {
    const { effects, settings, channels, grpcPort, files } = this.#options
    const { port = 0, url = '' } = files?.() ?? {}
    const { pingMs, pongMs } = settings.session
    return message(OpenSessionResponseSchema, {
      agentId: fromHex(caller.agent),
      expiresInMs: until === undefined ? 0 : Math.max(1, until - effects.now),
      sessionToken: sessionToken ?? '',
      pingIntervalMs: pingMs,
      pingTimeoutMs: pongMs,
      keyPackages: channels.keyPackages.held(caller.agent),
      grpcPort: grpcPort(),
      filesPort: port,
      filesUrl: url,
    })
  }

  #refreshed(request: PendingRequest, caller: Caller, token: TokenCaller | undefined): void {
    const { effects, tokens } = this.#options
    const { now } = effects
    const { session } = request.stream
    if (session) session.expiresAt = caller.expiresAt
    const made = token && tokens.make(caller, now, now)
    const until = made?.validUntil ?? caller.expiresAt ?? now
    const fields = { expiresInMs: Math.max(1, until - now), sessionToken: made?.token ?? '' }
    request.answer({ case: 'refreshSession', value: message(RefreshSessionResponseSchema, fields) })
  }
}

/** How an agent reaches the relay; an agent behind a proxy reaches the proxy by gRPC. */
export function transportOf({ peer }: Stream): 'quic' | 'grpc' | 'proxy' {
  return peer.proxy ? 'proxy' : peer.transport
}
