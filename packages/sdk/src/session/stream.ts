/**
 * One stream to the relay, from its challenge to its end: requests and responses, pongs, liveness. It decides nothing
 * about the next stream: it reports why it ended to its owner, once, and is silent after that.
 */
import {
  CellJoiner,
  type CellEvent,
  CoverClock,
  cutEnvelope,
  ENVELOPE_LIMITS,
  makeCell,
  message,
  paceOf,
  REVISION,
  StaticError,
  UsualTime,
} from '@static/protocol'
import { decodeEnvelope, encodeEnvelope, type WireForm } from '@static/protocol/envelope'
import {
  ClientMessageSchema,
  ErrorSchema,
  GetChallengeRequestSchema,
  type GetChallengeResponse,
  type ServerMessage,
  ServerMessageSchema,
} from '@static/protocol/relay'
import type { RequestBody, ServerBody, Time } from '../ports/index.ts'
import { ackCells } from './acks.ts'
import { fractions } from './backoff.ts'
import { CellWriter, type QueuedRequest } from './cell-writer.ts'
import { brokenProtocol, closedByRelay, type Failure, refusedOpening, unreachable } from './failure.ts'
import {
  type AnnouncedFiles,
  type Effects,
  type ExpectedRelay,
  FORMS,
  type Position,
  type StreamNumber,
  type Way,
} from './io.ts'
import { challengeFault, type OpeningOptions, openSessionRequest, refreshSessionRequest } from './opening.ts'
import { outOfBounds, PUSHES } from './server-messages.ts'

/** The relay's terms when it opened the session. */
export interface SessionTerms {
  readonly challenge: GetChallengeResponse
  readonly keyPackages: number
  /** Time until the session needs a new token; 0: never. */
  readonly expiresInMs: number
  /** As announced by the relay, unchecked. */
  readonly grpcPort: number
  /** As announced by the relay, unchecked. */
  readonly files: AnnouncedFiles
}

/** Each method is called at most once. */
export interface StreamOwner<Key> {
  opened(stream: SessionStream<Key>, terms: SessionTerms): void
  /** The stream has failed and is no longer usable. */
  failed(stream: SessionStream<Key>, failure: Failure): void
}

export interface StreamOptions extends ExpectedRelay {
  readonly number: StreamNumber
  readonly way: Way
  /** Empty for a guest. */
  readonly jwt: string
  readonly opening: OpeningOptions
}

/** A request waiting for its response, made by the caller or by the session itself. */
interface PendingRequest<Key> extends QueuedRequest {
  readonly name: RequestBody['case']
  readonly key?: Key
  readonly onAnswer?: (body: ServerBody) => void
}

/** The relay's longest envelopes carry a commit of 4 MiB and its metadata. */
const OPEN_LIMIT = ENVELOPE_LIMITS.member + 64 * 1024
/** Accepted range for the relay's ping interval. */
const BOUNDS_MS = { min: 100, max: 120_000 } as const
/** More marks than the relay can have in flight. Of older ones, the newest speaks for all. */
const MAX_HELD_PONGS = 64
const FULL = {
  code: 'unavailable',
  message: 'Too many requests are queued for the relay. Retry later.',
  retryAfterMs: 1000,
} as const
const TOO_LARGE = { code: 'too_large', message: 'The request is longer than the relay accepts.' } as const

export class SessionStream<Key> {
  readonly number: StreamNumber
  readonly way: Way
  isOpen = false
  /**
   * Whether the agent has asked the relay to open the session. From then on, the relay may have replaced an older
   * session.
   */
  hasAsked = false
  readonly #effects: Effects<Key>
  readonly #owner: StreamOwner<Key>
  readonly #options: StreamOptions
  readonly #form: WireForm
  readonly #joiner = new CellJoiner(ENVELOPE_LIMITS.unauthenticated)
  readonly #writer: CellWriter
  readonly #pending = new Map<number, PendingRequest<Key>>()
  #lastRequest = 0
  #over = false
  /** From the challenge, already checked. */
  #relayId: Uint8Array | undefined
  #heldPongs: Uint8Array[] = []
  #heardAt: Time
  #pingedAt: Time | undefined
  #pingMs = 0
  #pongMs = 0
  #cover: CoverClock | undefined
  /** The usual time until a delivery is acknowledged, and since when one has been waiting. */
  readonly #usual = new UsualTime()
  #deliveredAt: Time | undefined

  constructor(effects: Effects<Key>, owner: StreamOwner<Key>, options: StreamOptions) {
    this.#effects = effects
    this.#owner = owner
    this.#options = options
    this.number = options.number
    this.way = options.way
    this.#form = FORMS[options.way]
    this.#heardAt = effects.now
    this.#writer = new CellWriter(
      (cells, urgent) => effects.emit({ type: 'write', stream: options.number, cells, urgent }),
      options.opening.signer.random,
    )
    this.#ask(challengeRequest(), (body) => {
      if (body.case === 'error') return this.#fail(refusedOpening(body.value))
      if (body.case === 'getChallenge') this.#challenged(body.value)
    })
  }

  /** When the next timer is due. While pongs are withheld, the relay may withhold its own. */
  get due(): Time {
    return Math.min(this.#pingDue, this.#cover?.due ?? Infinity)
  }

  get #pingDue(): Time {
    if (!this.isOpen || this.#isHolding) return Infinity
    return this.#pingedAt === undefined ? this.#heardAt + this.#pingMs : this.#pingedAt + this.#pongMs
  }

  tick(): void {
    const { now } = this.#effects
    const unit = this.#cover?.take(now)
    // Cover traffic never delays real data.
    if (unit && !this.#writer.isBusy) this.#writer.sendNow(unit)
    if (now < this.#pingDue) return
    if (this.#pingedAt !== undefined) return this.#fail(unreachable('The relay stopped answering.'))
    this.#pingedAt = now
    this.#writer.ping()
  }

  receive(bytes: Uint8Array): void {
    this.#heardAt = this.#effects.now
    this.#pingedAt = undefined
    try {
      this.#joiner.push(bytes, (event) => {
        // Anything after the closing message is ignored.
        if (!this.#over) this.#cell(event)
      })
    } catch (error) {
      this.#fail(brokenProtocol('it sent a malformed cell', error))
    }
  }

  /** Sends a caller's request. */
  request(key: Key, body: RequestBody): void {
    const refused = this.#ask(body, undefined, key)
    if (!refused) return
    const error = message(ErrorSchema, { lagging: [], ...refused })
    this.#effects.emit({ type: 'outcome', key, outcome: { type: 'refused', error } })
  }

  ack(positions: readonly Position[]): void {
    if (this.#deliveredAt !== undefined) this.#usual.note(this.#effects.now - this.#deliveredAt)
    this.#deliveredAt = undefined
    for (const cell of ackCells(this.#form, positions)) this.#writer.sendNow(cell)
  }

  /** Sends the withheld pongs: everything was read. */
  release(): void {
    for (const payload of this.#heldPongs) this.#writer.sendNow(makeCell('pong', payload))
    this.#heldPongs = []
    this.#heardAt = this.#effects.now
  }

  /** Gives the session a new token. `done` gets the new lifetime, or undefined if the relay refused it. */
  refresh(jwt: string, done: (expiresInMs: number | undefined) => void): void {
    const refused = this.#ask(challengeRequest(), (body) => {
      if (body.case !== 'getChallenge') return done(undefined)
      const fault = challengeFault(body.value, { ...this.#options, known: this.#relayId, accepted: undefined })
      if (fault) return this.#fail(fault)
      const value = refreshSessionRequest(this.#options.opening, body.value, jwt)
      const refused = this.#ask({ case: 'refreshSession', value }, (answer) => {
        done(answer.case === 'refreshSession' ? answer.value.expiresInMs : undefined)
      })
      if (refused) done(undefined)
    })
    if (refused) done(undefined)
  }

  /** Ends the stream: all pending requests are lost, in order. */
  abandon(error: StaticError): void {
    this.#over = true
    for (const { onAnswer, key } of this.#pending.values()) {
      if (!onAnswer) this.#effects.emit({ type: 'outcome', key: key as Key, outcome: { type: 'lost', error } })
    }
    this.#pending.clear()
  }

  get #isHolding(): boolean {
    return this.#heldPongs.length > 0
  }

  /** Sends a request. Returns a refusal if it cannot be sent. */
  #ask(
    body: RequestBody,
    onAnswer: PendingRequest<Key>['onAnswer'],
    key?: Key,
  ): { code: string; message: string; retryAfterMs?: number } | undefined {
    const requestId = this.#lastRequest + 1
    let envelope: Uint8Array
    try {
      const asked = message(ClientMessageSchema, { requestId: BigInt(requestId), sessionToken: '', body })
      envelope = encodeEnvelope(this.#form, ClientMessageSchema, asked)
    } catch (error) {
      return { code: 'invalid_request', message: StaticError.from(error).message }
    }
    if (envelope.length > ENVELOPE_LIMITS.member) return TOO_LARGE
    const pending: PendingRequest<Key> = {
      name: body.case,
      cells: cutEnvelope(envelope),
      started: false,
      ...(onAnswer ? { onAnswer } : { key: key as Key }),
    }
    if (!this.#writer.push(pending)) return FULL
    this.#lastRequest = requestId
    this.#pending.set(requestId, pending)
    return undefined
  }

  #cell({ type, payload }: CellEvent): void {
    switch (type) {
      case 'envelope':
        this.#envelope(decodeEnvelope(this.#form, ServerMessageSchema, payload, this.#joiner.limit))
        return
      case 'ping':
        this.#pinged(payload)
        return
      case 'pong':
        if (!this.#writer.pong(payload)) this.#fail(brokenProtocol('it answered a ping that was never sent'))
        return
      case 'coverAsk':
        // A clocked stream always has cover traffic.
        this.#cover?.asked(this.#usual, this.#effects.now)
        return
      case 'ack':
        this.#fail(brokenProtocol('it sent an acknowledgement'))
    }
  }

  #envelope(message: ServerMessage): void {
    const fault = outOfBounds(message)
    if (fault === undefined) this.#message(message)
    else this.#fail(brokenProtocol(`it sent ${fault}`))
  }

  #pinged(payload: Uint8Array): void {
    if (!this.#effects.held) return this.#writer.sendNow(makeCell('pong', payload))
    this.#heldPongs.push(payload.slice())
    if (this.#heldPongs.length > MAX_HELD_PONGS) this.#heldPongs.shift()
    // Any cell shows the relay that this agent is alive while its pongs are withheld.
    this.#writer.sendNow(makeCell('cover'))
  }

  #message({ requestId, body }: ServerMessage): void {
    // The decoder rejects messages without a body.
    if (body.case === undefined) return
    if (requestId === 0n) return this.#pushed(body)
    const id = Number(requestId)
    const pending = this.#pending.get(id)
    if (!pending?.started) return this.#fail(brokenProtocol('it answered a request that was never sent'))
    if (body.case !== pending.name && body.case !== 'error') {
      return this.#fail(brokenProtocol(`it answered ${pending.name} with ${body.case}`))
    }
    this.#pending.delete(id)
    this.#writer.answered(pending)
    if (pending.onAnswer) return pending.onAnswer(body)
    const outcome =
      body.case === 'error' ? ({ type: 'refused', error: body.value } as const) : ({ type: 'answered', body } as const)
    this.#effects.emit({ type: 'outcome', key: pending.key as Key, outcome })
  }

  #pushed(body: ServerBody): void {
    if (body.case === 'sessionClosing') return this.#fail(closedByRelay(body.value, this.isOpen))
    if (!this.isOpen || !PUSHES.has(body.case)) return this.#fail(brokenProtocol(`it sent an unexpected ${body.case}`))
    if (body.case === 'deliverMessage') this.#deliveredAt ??= this.#effects.now
    this.#effects.emit({ type: 'push', body })
  }

  #challenged(challenge: GetChallengeResponse): void {
    const { opening, jwt } = this.#options
    const fault = challengeFault(challenge, this.#options)
    if (fault) return this.#fail(fault)
    this.hasAsked = true
    this.#relayId = challenge.relayId.slice()
    this.#ask({ case: 'openSession', value: openSessionRequest(opening, challenge, jwt) }, (body) => {
      if (body.case === 'error') return this.#fail(refusedOpening(body.value))
      if (body.case !== 'openSession') return
      const { keyPackages, expiresInMs, pingIntervalMs, pingTimeoutMs, grpcPort } = body.value
      const files = { port: body.value.filesPort, url: body.value.filesUrl }
      this.isOpen = true
      this.#joiner.limit = OPEN_LIMIT
      this.#pingMs = bounded(pingIntervalMs)
      this.#pongMs = bounded(pingTimeoutMs)
      this.#shape()
      this.#owner.opened(this, { challenge, keyPackages, expiresInMs, grpcPort, files })
    })
  }

  /** From now on, shapes outgoing traffic according to the profile. */
  #shape(): void {
    const { traffic, cellsPerSecond, signer } = this.#options.opening
    const pace = paceOf(traffic, cellsPerSecond)
    if (pace) {
      this.#writer.pace()
      this.#effects.emit({ type: 'pace', stream: this.number, pace })
    } else if (traffic === 'standard') {
      this.#cover = new CoverClock(fractions(signer.random), this.#effects.now)
    }
  }

  #fail(failure: Failure): void {
    if (this.#over) return
    this.#over = true
    this.#owner.failed(this, failure)
  }
}

function challengeRequest(): RequestBody {
  return { case: 'getChallenge', value: message(GetChallengeRequestSchema, { revision: REVISION }) }
}

function bounded(ms: number): number {
  return Math.min(BOUNDS_MS.max, Math.max(BOUNDS_MS.min, ms))
}
