/** A session's core with a clock that stands still and a relay whose every word the test says. */
import assert from 'node:assert/strict'
import { hash, randomBytes } from 'node:crypto'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { CELL_BYTES, CellJoiner, cutEnvelope, type LoneCell, makeCell, StaticError } from '@static/protocol'
import { decodeEnvelope, encodeEnvelope } from '@static/protocol/envelope'
import {
  type AckRequest,
  AckRequestSchema,
  type ClientMessage,
  ClientMessageSchema,
  type CloseReason,
  ReceiptDemand,
  ServerMessageSchema,
} from '@static/protocol/relay'
import type { KnownRelay, Outcome, RequestBody, ServerBody } from '../../src/ports/index.ts'
import { SessionCore } from '../../src/session/core.ts'
import { type CoreOptions, type Effect, FORMS, type Input, type OpenedInfo, type Way } from '../../src/session/io.ts'
import { makeSigner } from './support.ts'

/** The relay's end of a stream. */
interface Line {
  readonly way: Way
  readonly port: number | undefined
  readonly joiner: CellJoiner
  readonly requests: ClientMessage[]
  readonly acks: AckRequest[]
  /** Everything that came, in order: the case of a request, or the kind of a cell. */
  readonly heard: string[]
  readonly pongs: Uint8Array[]
  readonly pings: Uint8Array[]
  /** The cells of each write that may overtake others on a clock. */
  readonly urgent: number[]
  bytes: number
}

type BodyInit = NonNullable<MessageInitShape<typeof ServerMessageSchema>['body']>

const START = 1_000_000
export const RELAY_ID: Uint8Array = new Uint8Array(32).fill(7)
export const NONCE: Uint8Array = new Uint8Array(32).fill(9)
export const RESUME: RequestBody = {
  case: 'resume',
  value: {
    $typeName: 'static.relay.v1.ResumeRequest',
    channelIds: [],
    after: new Uint8Array(),
    receipts: ReceiptDemand.UNSPECIFIED,
  },
}

export class Stage {
  now: number = START
  /** What came of it all, in order and in short; taken by `taken`. */
  #log: string[] = []
  readonly lines: Map<number, Line> = new Map()
  readonly ended: Set<number> = new Set()
  readonly dials: { readonly node: number; readonly avoidsLast: boolean }[] = []
  readonly outcomes: Map<string, Outcome[]> = new Map()
  readonly infos: OpenedInfo[] = []
  readonly losses: StaticError[] = []
  readonly pushes: ServerBody[] = []
  readonly signed: Uint8Array[] = []
  readonly pins: KnownRelay[] = []
  firstError: StaticError | undefined
  wakeAt: number = Infinity
  readonly #core: SessionCore<string>
  /** What the next fractions of back-off come from; 0.5 when undefined. */
  fraction = 0.5

  constructor(options: Partial<CoreOptions> = {}) {
    const key = makeSigner()
    this.#core = new SessionCore<string>({
      relayName: 'relay.test',
      addresses: 1,
      known: undefined,
      accepted: undefined,
      way: 'grpc',
      fallback: false,
      grpcPort: undefined,
      tokens: false,
      wait: false,
      traffic: 'off',
      cellsPerSecond: 0,
      signer: {
        publicKey: key.publicKey,
        sign: (bytes) => {
          this.signed.push(bytes)
          return key.sign(bytes)
        },
        hash: (bytes) => new Uint8Array(hash('sha256', bytes, 'buffer')),
        random: (bytes) => (bytes === 4 ? this.#four() : new Uint8Array(randomBytes(bytes))),
      },
      ...options,
    })
  }

  /** Starts, and opens stream 1. */
  static opened(options: Partial<CoreOptions> = {}): Stage {
    const stage = new Stage(options)
    stage.do({ type: 'start' })
    stage.open(1)
    stage.taken()
    return stage
  }

  /** What happened since it was last asked. */
  taken(): string[] {
    return this.#log.splice(0)
  }

  do(input: Input<string>): void {
    for (const effect of this.#core.handle(input, this.now)) this.#carryOut(effect)
  }

  /** Lets time pass, with every tick that is due. */
  advance(ms: number): void {
    const until = this.now + ms
    for (let ticks = 0; this.wakeAt <= until; ticks++) {
      assert.ok(ticks < 10_000, 'the clock stands still')
      this.now = Math.max(this.now, this.wakeAt)
      this.wakeAt = Infinity
      this.do({ type: 'tick' })
    }
    this.now = until
  }

  /** Lets time pass while the relay shows that it is there. */
  live(stream: number, ms: number): void {
    for (let left = ms; left > 0; left -= 4000) {
      this.advance(Math.min(left, 4000))
      this.cell(stream, 'cover')
    }
  }

  /** Lets time pass until a stream is dialled; how long that took. */
  redial(stream: number): number {
    const from = this.now
    while (!this.lines.has(stream)) {
      assert.ok(this.now - from < 3_600_000, `stream ${stream} is not dialled`)
      this.advance(Math.max(1, this.wakeAt - this.now))
    }
    this.taken()
    return this.now - from
  }

  // ---- The network ----

  dialled(stream: number, serverName = 'relay.test'): void {
    this.do({ type: 'dialled', stream, serverName })
  }

  failDial(
    stream: number,
    message = 'Nobody is there.',
    kind: 'certificate' | 'unreachable' | 'unusable' = 'unreachable',
  ): void {
    const error = StaticError.of('connection_error', message)
    this.do({ type: 'dialFailed', stream, error, kind })
  }

  cut(stream: number): void {
    const reason = StaticError.of('connection_error', 'The line was cut.')
    this.do({ type: 'streamClosed', stream, reason })
  }

  // ---- The relay ----

  line(stream: number): Line {
    const line = this.lines.get(stream)
    assert.ok(line, `stream ${stream} was not dialled`)
    return line
  }

  /** The last request on a stream. */
  asked(stream: number): ClientMessage {
    const request = this.line(stream).requests.at(-1)
    assert.ok(request, `nothing was asked on stream ${stream}`)
    return request
  }

  send(stream: number, requestId: bigint, body: BodyInit): void {
    const message = create(ServerMessageSchema, { requestId, body })
    const bytes = cutEnvelope(encodeEnvelope(FORMS[this.line(stream).way], ServerMessageSchema, message))
    this.do({ type: 'data', stream, bytes })
  }

  /** Answers the last request. */
  answer(stream: number, body: BodyInit): void {
    this.send(stream, this.asked(stream).requestId, body)
  }

  refuse(stream: number, error: Extract<BodyInit, { case: 'error' }>['value']): void {
    this.answer(stream, { case: 'error', value: error })
  }

  cell(stream: number, type: LoneCell, payload?: Uint8Array): void {
    this.do({ type: 'data', stream, bytes: makeCell(type, payload) })
  }

  challenge(stream: number, changes: object = {}): void {
    const value = { nonce: NONCE, relayName: 'relay.test', relayId: RELAY_ID, revision: 2, ...changes }
    this.answer(stream, { case: 'getChallenge', value })
  }

  accept(stream: number, changes: object = {}): void {
    const value = { pingIntervalMs: 5000, pingTimeoutMs: 5000, ...changes }
    this.answer(stream, { case: 'openSession', value })
  }

  /** From the dial to the open session. */
  open(stream: number, changes: object = {}): void {
    this.dialled(stream)
    this.challenge(stream)
    this.accept(stream, changes)
  }

  close(stream: number, reason: CloseReason, error?: object): void {
    this.send(stream, 0n, { case: 'sessionClosing', value: { reason, ...(error ? { error } : {}) } })
  }

  // ---- The agent ----

  request(key: string, body: RequestBody = RESUME): void {
    this.do({ type: 'request', key, body })
  }

  token(lifetimeMs = 3_600_000, jwt = 'jwt'): void {
    this.do({ type: 'token', jwt, expiresAt: this.now + lifetimeMs })
  }

  #four(): Uint8Array {
    const bytes = new Uint8Array(4)
    new DataView(bytes.buffer).setUint32(0, Math.floor(this.fraction * 2 ** 32))
    return bytes
  }

  #carryOut(effect: Effect<string>): void {
    switch (effect.type) {
      case 'dial':
        this.#log.push(`dial ${effect.stream} ${effect.way}${effect.port === undefined ? '' : `:${effect.port}`}`)
        this.lines.set(effect.stream, makeLine(effect.way, effect.port))
        this.dials.push({ node: effect.node, avoidsLast: effect.avoidsLast })
        return
      case 'write':
        if (effect.urgent) this.line(effect.stream).urgent.push(effect.cells.length / CELL_BYTES)
        return this.#heard(this.line(effect.stream), effect.cells)
      case 'pace':
        this.#log.push(`pace ${effect.stream} ${effect.pace.type}`)
        return
      case 'end':
        this.#log.push(`end ${effect.stream}`)
        this.ended.add(effect.stream)
        return
      case 'askToken':
        this.#log.push('ask')
        return
      case 'outcome':
        this.#log.push(`${effect.key} ${effect.outcome.type}`)
        this.outcomes.set(effect.key, [...(this.outcomes.get(effect.key) ?? []), effect.outcome])
        return
      case 'opened':
        this.#log.push(`opened ${effect.info.way}`)
        this.infos.push(effect.info)
        return
      case 'push':
        this.#log.push(`push ${effect.body.case}`)
        this.pushes.push(effect.body)
        return
      case 'lost':
        this.#log.push(`lost ${effect.reason.code}`)
        this.losses.push(effect.reason)
        return
      case 'pin':
        this.#log.push(`pin ${effect.relayName}`)
        this.pins.push(effect.relay)
        return
      case 'wakeAt':
        assert.ok(effect.at < this.wakeAt, 'a later time does not take the place of an earlier one')
        this.wakeAt = effect.at
        return
      case 'firstFailed':
        this.#log.push(`failed ${effect.error.code}`)
        this.firstError = effect.error
    }
  }

  #heard(line: Line, cells: Uint8Array): void {
    const form = FORMS[line.way]
    line.bytes += cells.length
    if (cells.every((byte) => byte === 0)) line.heard.push(`cover ${cells.length / CELL_BYTES}`)
    line.joiner.push(cells, ({ type, payload }) => {
      const bytes = payload.slice()
      if (type === 'envelope') {
        const message = decodeEnvelope(form, ClientMessageSchema, bytes, bytes.length)
        line.requests.push(message)
        line.heard.push(message.body.case ?? '')
        return
      }
      line.heard.push(type)
      if (type === 'ack') line.acks.push(decodeEnvelope(form, AckRequestSchema, bytes, bytes.length))
      if (type === 'ping') line.pings.push(bytes)
      if (type === 'pong') line.pongs.push(bytes)
    })
  }
}

function makeLine(way: Way, port: number | undefined): Line {
  const joiner = new CellJoiner(8 * 1024 * 1024)
  return { way, port, joiner, requests: [], acks: [], heard: [], pongs: [], pings: [], urgent: [], bytes: 0 }
}
