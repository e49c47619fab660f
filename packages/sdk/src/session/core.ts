/**
 * The agent's side of a session as a state machine: `handle(input, now)` returns the effects and has no side effects
 * itself. It dials, opens, monitors, renews and reconnects until it is closed. There is at most one stream, plus a
 * second one while an agent on gRPC probes whether QUIC works again.
 */
import { AuthError, StaticError } from '@static/protocol'
import { same } from '../platform/bytes.ts'
import type { KnownRelay, Time } from '../ports/index.ts'
import { type Dial, isPort, mayHop, newDial, OPENING_MS } from './dial.ts'
import { Backoff, fractions } from './backoff.ts'
import { type Failure, type FailureRule, FAILURES, PASSED_NODE, unreachable } from './failure.ts'
import { FirstSession } from './first-session.ts'
import { type CoreOptions, type Effect, Effects, type Input, type StreamNumber, type Way } from './io.ts'
import { Nodes } from './nodes.ts'
import { Route } from './route.ts'
import { SessionStream, type SessionTerms, type StreamOwner } from './stream.ts'
import { Tokens } from './tokens.ts'

/** After an outage of any length all agents are back within 9 s. */
export const BACKOFF_MS = { first: 100, max: 9000 } as const
/**
 * If the relay cannot verify an agent because of clocks, the agent returns soon after they are corrected, and costs
 * little until then.
 */
const UNVERIFIED_MS = { first: 3000, max: 15_000 } as const
/** A session that lasted at least this long resets the backoff. */
const HEALTHY_MS = 10_000
/** Upper limit for the retry delay that a relay asks for. */
const MAX_RETRY_AFTER_MS = 600_000
const MOVED = 'The session moved to QUIC before the answer arrived.'
const SLOW_DIAL = 'The relay did not answer in time.'
const SLOW_OPENING = 'The relay did not open the session in time.'

/** The state machine of one agent's session. */
export class SessionCore<Key> {
  readonly #options: CoreOptions
  readonly #fraction: () => number
  readonly #backoff: Backoff
  readonly #unverified: Backoff
  readonly #nodes: Nodes
  readonly #route: Route
  readonly #tokens: Tokens | undefined
  readonly #effects = new Effects<Key>()
  readonly #owner: StreamOwner<Key>
  #first: FirstSession | undefined
  #known: KnownRelay | undefined
  #wakeAt: Time = Infinity
  #started = false
  #closed = false
  #lastStream = 0
  #main: Dial<Key> | undefined
  #probe: Dial<Key> | undefined
  #dialAt: Time = -Infinity

  constructor(options: CoreOptions) {
    this.#options = options
    this.#known = options.known
    this.#fraction = fractions(options.signer.random)
    this.#backoff = new Backoff(BACKOFF_MS.first, BACKOFF_MS.max, this.#fraction)
    this.#unverified = new Backoff(UNVERIFIED_MS.first, UNVERIFIED_MS.max, this.#fraction)
    this.#nodes = new Nodes(options.addresses, this.#fraction)
    this.#route = new Route(options.way, options.fallback, options.addresses)
    this.#tokens = options.tokens ? new Tokens(this.#fraction) : undefined
    this.#first = new FirstSession(this.#route.hasFallback, options.addresses)
    this.#owner = {
      opened: (stream, terms) => this.#opened(stream, terms),
      failed: (stream, failure) => {
        const dial = this.#find(stream.number)
        if (dial) this.#failed(dial, failure)
      },
    }
  }

  /** Handles an input and returns the effects to carry out, in order. */
  handle(input: Input<Key>, now: Time): readonly Effect<Key>[] {
    this.#effects.now = now
    this.#dispatch(input)
    this.#advance()
    this.#schedule(input.type === 'tick')
    return this.#effects.drain()
  }

  #dispatch(input: Input<Key>): void {
    switch (input.type) {
      case 'request':
        return this.#request(input.key, input.body)
      case 'data':
        return this.#find(input.stream)?.stream?.receive(input.bytes)
      case 'ack':
        return this.#openStream?.ack(input.positions)
      case 'tick':
        return this.#tick()
      case 'dialled':
        return this.#dialled(input.stream, input.serverName)
      case 'dialFailed':
        return this.#dialFailed(input)
      case 'streamClosed':
        return this.#streamClosed(input)
      case 'token':
        return this.#tokens?.given(input.jwt, input.expiresAt, this.#now)
      case 'tokenFailed':
        return this.#tokenFailed(input.error)
      case 'hold':
        this.#effects.held = true
        return
      case 'release':
        this.#effects.held = false
        this.#main?.stream?.release()
        this.#probe?.stream?.release()
        return
      case 'start':
        this.#started = true
        return
      case 'close':
        this.#close(StaticError.of('closed', 'The session was closed.'))
    }
  }

  // ---- Calls ----

  get #openStream(): SessionStream<Key> | undefined {
    return this.#main?.stream?.isOpen ? this.#main.stream : undefined
  }

  #request(key: Key, body: Extract<Input<Key>, { type: 'request' }>['body']): void {
    const stream = this.#openStream
    if (stream) return stream.request(key, body)
    const error = this.#closed
      ? StaticError.of('closed', 'The session was closed.')
      : StaticError.of('transport_error', 'Not connected to the relay.')
    this.#emit({ type: 'outcome', key, outcome: { type: 'lost', error } })
  }

  #close(error: StaticError): void {
    this.#closed = true
    for (const dial of [this.#main, this.#probe]) if (dial) this.#end(dial, error)
    this.#main = undefined
    this.#probe = undefined
  }

  // ---- Dialing ----

  /** Does whatever is due: without a stream, the next step of dialing; with an open one, its maintenance. */
  #advance(): void {
    if (this.#closed || !this.#started) return
    if (!this.#main) {
      if (this.#now < this.#dialAt || !this.#hasToken()) return
      this.#main = this.#dial(this.#route.next, undefined, 0)
      return
    }
    if (!this.#main.stream?.isOpen) return
    this.#renew(this.#main)
    if (this.#now < this.#route.probeAt) return
    this.#route.stopProbing()
    if (this.#tokens && !this.#tokens.isUsable(this.#now)) this.#route.probeFailed(this.#now)
    else this.#probe = this.#dial('quic', undefined, 0)
  }

  #dial(way: Way, port: number | undefined, hops: number): Dial<Key> {
    const number = ++this.#lastStream
    const { grpcPort } = this.#options
    // A gRPC endpoint specifies its own port.
    const told = way === this.#options.way ? undefined : (grpcPort ?? (this.#known?.grpcPort || undefined))
    const { current: node, avoidsLast } = this.#nodes
    this.#emit({ type: 'dial', stream: number, way, node, port: port ?? told, avoidsLast })
    return newDial({ number, way, node, hops, token: this.#tokens?.held }, this.#now)
  }

  #find(number: StreamNumber): Dial<Key> | undefined {
    if (this.#main?.number === number) return this.#main
    return this.#probe?.number === number ? this.#probe : undefined
  }

  #dialled(number: StreamNumber, serverName: string): void {
    const dial = this.#find(number)
    // The dial was abandoned meanwhile.
    if (!dial || dial.stream) return this.#emit({ type: 'end', stream: number })
    dial.deadline = this.#now + OPENING_MS
    dial.stream = new SessionStream(this.#effects, this.#owner, {
      number,
      way: dial.way,
      serverName,
      known: this.#known?.relayId,
      accepted: this.#options.accepted,
      jwt: dial.token?.jwt ?? '',
      opening: this.#options,
    })
  }

  #dialFailed({ stream, error, kind }: Extract<Input<Key>, { type: 'dialFailed' }>): void {
    const dial = this.#find(stream)
    if (dial) this.#failed(dial, { kind, error })
  }

  #streamClosed({ stream, reason }: Extract<Input<Key>, { type: 'streamClosed' }>): void {
    const dial = this.#find(stream)
    if (!dial) return
    const words = dial.openedAt === undefined ? 'before the session was open' : 'without giving a reason'
    const ended = unreachable(`The relay ended the stream ${words}.`)
    this.#failed(dial, reason ? { kind: 'unreachable', error: reason } : ended)
  }

  // ---- Streams ----

  #opened(stream: SessionStream<Key>, terms: SessionTerms): void {
    const { challenge, keyPackages, expiresInMs, grpcPort, files: announced } = terms
    const dial = this.#find(stream.number)
    if (!dial) return
    dial.openedAt = this.#now
    if (dial === this.#probe) {
      if (this.#main) this.#end(this.#main, StaticError.of('transport_error', MOVED))
      this.#main = dial
      this.#probe = undefined
    }
    this.#first = undefined
    this.#nodes.opened()
    this.#unverified.reset()
    this.#route.opened(dial.way, this.#now)
    if (dial.token) this.#tokens?.markInUse(dial.token, expiresInMs, this.#now)
    const relay = this.#learned(challenge.relayId, grpcPort)
    const { way, node } = dial
    const info = { way, node, keyPackages, nonce: challenge.nonce.slice(), guest: !dial.token, relay, announced }
    this.#emit({ type: 'opened', info })
  }

  /** The relay's record from now on. An invalid port counts as not announced. */
  #learned(relayId: Uint8Array, told: number): KnownRelay {
    const known = this.#known
    const isSameRelay = known !== undefined && same(known.relayId, relayId)
    const grpcPort = isPort(told) ? told : isSameRelay ? known.grpcPort : 0
    if (isSameRelay && known.grpcPort === grpcPort) return known
    const relay = { relayId: relayId.slice(), grpcPort }
    this.#known = relay
    this.#emit({ type: 'pin', relayName: this.#options.relayName, relay })
    return relay
  }

  /** Ends a stream. Requests pending on it are lost. */
  #end(dial: Dial<Key>, error: StaticError): void {
    if (dial.stream) this.#emit({ type: 'end', stream: dial.number })
    dial.stream?.abandon(error)
  }

  #failed(dial: Dial<Key>, failure: Failure): void {
    this.#end(dial, failure.error)
    const redirected = this.#redirected(dial, failure)
    if (dial === this.#probe) {
      this.#probe = redirected
      if (!redirected) this.#route.probeFailed(this.#now)
      return
    }
    this.#main = redirected
    if (!redirected) this.#mainFailed(dial, failure)
  }

  /** Follows the redirect of a full port to another port of the same host. */
  #redirected(dial: Dial<Key>, { redirectPort }: Failure): Dial<Key> | undefined {
    if (redirectPort === undefined || !mayHop(dial, redirectPort)) return undefined
    const { way, hops, isSwitch } = dial
    return { ...this.#dial(way, redirectPort, hops + 1), isSwitch }
  }

  #mainFailed(dial: Dial<Key>, failure: Failure): void {
    const wasOpen = dial.openedAt !== undefined
    const probe = this.#probe
    this.#probe = undefined
    this.#route.stopProbing()
    const isExpected = failure.kind === 'replaced' && probe?.stream?.hasAsked === true
    if (probe && (isExpected || FAILURES[failure.kind].floorMs === 0)) {
      // The stream that probes QUIC takes over.
      this.#main = probe
      probe.isSwitch = isExpected
      if (!isExpected) this.#emit({ type: 'lost', reason: failure.error })
      return
    }
    if (probe) this.#end(probe, failure.error)
    const meant = this.#judged(dial, failure)
    const rule = this.#ruleOf(meant)
    const giveUp = this.#first?.failed(dial.way, meant, rule)
    if (giveUp && !this.#keepsTrying(rule.final, giveUp)) return this.#giveUp(giveUp)
    if (wasOpen || dial.isSwitch || (rule.final && !this.#first)) this.#emit({ type: 'lost', reason: meant.error })
    if (meant.kind === 'unusable' && this.#route.hasFallback) {
      this.#route.unusable()
      return
    }
    if (rule.otherWay && !wasOpen) this.#route.unreachable(dial.way)
    if (rule.otherNode) this.#nodes.next(this.#now)
    if (wasOpen && this.#now - (dial.openedAt ?? 0) >= HEALTHY_MS) this.#backoff.reset()
    const requested = Math.min(MAX_RETRY_AFTER_MS, meant.retryAfterMs ?? 0)
    const floor = rule.floorMs + this.#fraction() * rule.jitterMs
    const backoff = meant.kind === 'unverified' ? this.#unverified : this.#backoff
    // The relay may have sent many agents the same delay, so they spread out after it.
    this.#dialAt = this.#now + requested + Math.max(floor, backoff.next())
  }

  /** A node that is not the relay, or runs another version, is skipped for a while, unless all nodes are like that. */
  #ruleOf({ kind }: Failure): FailureRule {
    const rule = FAILURES[kind]
    if (kind !== 'certificate' && kind !== 'untrusted' && kind !== 'outdated') return rule
    return this.#nodes.distrust(this.#now, this.#now + rule.floorMs) ? PASSED_NODE : rule
  }

  /** Reinterprets a failure, given the token that was used. */
  #judged({ token, isTokenOld, openedAt }: Dial<Key>, failure: Failure): Failure {
    const { kind } = failure
    const isRefused = kind === 'auth' || kind === 'unverified'
    if (!token || !this.#tokens || !(isRefused || kind === 'expired')) return failure
    const isOutdated = isTokenOld && openedAt === undefined
    if (kind === 'unverified' && !isOutdated) {
      this.#tokens.doubt(token, this.#now)
      return failure
    }
    // The token no longer works, so a new one is fetched.
    this.#tokens.drop(token)
    const { error } = this.#tokens
    if (kind === 'expired') return error instanceof AuthError ? { ...failure, error } : failure
    return isOutdated ? { ...failure, kind: 'expired' } : failure
  }

  /** Whether the application wants to continue without a first session. */
  #keepsTrying(isFinal: boolean, reason: StaticError): boolean {
    if (isFinal || !this.#options.wait) return false
    this.#first = undefined
    this.#emit({ type: 'lost', reason })
    return true
  }

  #giveUp(error: StaticError): void {
    this.#close(error)
    this.#emit({ type: 'firstFailed', error })
  }

  // ---- Tokens ----

  /** Whether a token for the next dial is available or none is needed. Otherwise requests one. */
  #hasToken(): boolean {
    if (!this.#tokens || this.#tokens.isUsable(this.#now)) return true
    this.#askToken(this.#tokens)
    return false
  }

  #askToken(tokens: Tokens): void {
    if (tokens.ask(this.#now)) this.#emit({ type: 'askToken' })
  }

  #tokenFailed(error: StaticError): void {
    this.#tokens?.failed(error, this.#now)
    if (this.#main || this.#closed) return
    const giveUp = this.#first?.tokenFailed(error)
    const isFinal = error instanceof AuthError
    if (giveUp && !this.#keepsTrying(isFinal, giveUp)) return this.#giveUp(giveUp)
    if (isFinal) this.#emit({ type: 'lost', reason: error })
  }

  /** Refreshes the open session with a new token when it is due. */
  #renew(dial: Dial<Key>): void {
    const tokens = this.#tokens
    if (!tokens?.isRenewalDue(this.#now)) return
    const token = tokens.startRefresh()
    if (!token) return this.#askToken(tokens)
    dial.stream?.refresh(token.jwt, (expiresInMs) => {
      if (expiresInMs === undefined) return tokens.refreshRefused(this.#now)
      dial.token = token
      tokens.markInUse(token, expiresInMs, this.#now)
    })
  }

  // ---- Time ----

  #tick(): void {
    for (const dial of [this.#main, this.#probe]) {
      if (!dial) continue
      if (dial.stream?.isOpen) dial.stream.tick()
      else if (this.#now >= dial.deadline) this.#failed(dial, unreachable(dial.stream ? SLOW_OPENING : SLOW_DIAL))
    }
  }

  #schedule(hasTicked: boolean): void {
    if (hasTicked) this.#wakeAt = Infinity
    const due = this.#due()
    if (due >= this.#wakeAt) return
    this.#wakeAt = due
    this.#emit({ type: 'wakeAt', at: due })
  }

  #due(): Time {
    if (this.#closed || !this.#started) return Infinity
    const tokens = this.#tokens
    if (!this.#main) return Math.max(this.#dialAt, tokens?.isUsable(this.#now) === false ? tokens.askDue : -Infinity)
    const { stream, deadline } = this.#main
    if (!stream?.isOpen) return deadline
    const probeAt = this.#probe?.deadline ?? this.#route.probeAt
    return Math.min(stream.due, probeAt, tokens?.renewalDue ?? Infinity)
  }

  get #now(): Time {
    return this.#effects.now
  }

  #emit(effect: Effect<Key>): void {
    this.#effects.emit(effect)
  }
}
