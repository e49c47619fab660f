/**
 * Many lives of a session on a network that cuts, delays and refuses, against a relay that answers. Whatever happens:
 * every request has one outcome, in the order of its stream; there are never two streams but while QUIC is tried beside
 * gRPC; no wait is longer than the back-off allows; nothing is thrown.
 */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { CellJoiner, cutEnvelope, makeCell, StaticError } from '@static/protocol'
import { decodeEnvelope, encodeEnvelope } from '@static/protocol/envelope'
import { type ClientMessage, ClientMessageSchema, CloseReason, ServerMessageSchema } from '@static/protocol/relay'
import { randomNumbers, SEED } from '@static/testkit/random'
import { SessionCore } from '../../src/session/core.ts'
import { type Effect, FORMS, type Input, type Way } from '../../src/session/io.ts'
import { RESUME } from './stage.ts'

/** More with STATIC_LONG=1. */
const REPLAYED = 20
const LIVES = process.env['STATIC_LONG'] === '1' ? 200 : 30
const LIFE_MS = 300_000
const MAX_WAIT_MS = 62_000

type BodyInit = NonNullable<MessageInitShape<typeof ServerMessageSchema>['body']>

interface Line {
  readonly way: Way
  readonly joiner: CellJoiner
  up: boolean
  over: boolean
}

class Life {
  readonly #random: () => number
  readonly #core: SessionCore<number>
  /** Some lives are hard; in the others there is time for the rare things. */
  readonly #roughness: number
  readonly #slow: Way
  readonly #lines = new Map<number, Line>()
  /** What happens when, by time; those of the same time in the order in which they were planned. */
  #plans: { readonly at: number; readonly run: () => void }[] = []
  #now = 0
  #wakeAt = Infinity
  #lastKey = 0
  /** Requests without an outcome, and the stream on which they were asked. */
  readonly #open = new Map<number, number>()
  #current = 0
  #lastOutcome = { stream: 0, lost: 0 }
  #quietSince = 0
  #isQuicBlocked = false
  /** Of the session that is open, as the listener knows it. */
  #way: Way | undefined
  opened = 0
  answered = 0
  lost = 0
  /** How often QUIC has taken over from gRPC. */
  probed = 0

  constructor(seed: number) {
    this.#random = randomNumbers(seed)
    this.#roughness = this.#random() < 0.5 ? 1 : 0.05
    this.#slow = this.#random() < 0.5 ? 'quic' : 'grpc'
    this.#core = new SessionCore<number>({
      relayName: 'relay.test',
      addresses: 1,
      known: undefined,
      accepted: undefined,
      grpcPort: undefined,
      way: this.#random() < 0.7 ? 'quic' : 'grpc',
      fallback: true,
      wait: false,
      tokens: this.#random() < 0.5,
      traffic: 'standard',
      cellsPerSecond: 0,
      signer: {
        publicKey: new Uint8Array(32),
        sign: () => new Uint8Array(64),
        hash: (bytes) => new Uint8Array(hash('sha256', bytes, 'buffer')),
        random: (bytes) => Uint8Array.from({ length: bytes }, () => Math.floor(this.#random() * 256)),
      },
    })
  }

  run(): void {
    this.#do({ type: 'start' })
    // The first session is given up soon by design: it comes about here, so that the rest of the life is seen.
    this.#calm = true
    while (this.opened === 0) this.#step()
    this.#calm = false
    this.#isQuicBlocked = this.#random() < 0.7
    this.#cutAll()
    while (this.#now < LIFE_MS) this.#step()
    this.#do({ type: 'close' })
    assert.equal(this.#open.size, 0, 'every request has its outcome')
    for (const line of this.#lines.values()) assert.ok(line.over || !line.up, 'closing ends every stream')
  }

  #calm = false

  #step(): void {
    const [next] = this.#plans
    const at = Math.min(next?.at ?? Infinity, this.#wakeAt, this.#now + 50 + this.#random() * 500)
    this.#now = Math.max(this.#now, at)
    if (next && next.at <= this.#now) {
      this.#plans.shift()
      next.run()
    } else if (this.#wakeAt <= this.#now) {
      this.#tick()
    } else {
      this.#chance()
    }
    const up = this.#up()
    const ways = up.map(({ way }) => way).sort()
    assert.ok(up.length <= 1 || ways.join() === 'grpc,quic', `streams: ${ways.join()}`)
    if (up.length > 0) this.#quietSince = this.#now
    assert.ok(this.#now - this.#quietSince <= MAX_WAIT_MS, 'no wait is without end')
  }

  #up(): Line[] {
    return [...this.#lines.values()].filter((line) => !line.over)
  }

  /** Something that nobody planned. */
  #chance(): void {
    const chance = this.#random()
    if (chance < 0.7) {
      for (let count = this.#random() * 4; count > 0; count--) this.#request()
      return
    }
    if (chance < 0.72) return this.#do({ type: 'hold' })
    if (chance < 0.76) return this.#do({ type: 'release' })
    if (chance < 0.8) return this.#tick()
    if (chance < 0.82) return this.#do({ type: 'ack', positions: [{ channelId: new Uint8Array(16), index: 1n }] })
    if (this.#calm) return
    if (chance >= 0.995) this.#isQuicBlocked = !this.#isQuicBlocked
    if (this.#random() > this.#roughness) return
    if (chance < 0.84) this.#cutAll()
  }

  /** At its time or too early, as timers do. */
  #tick(): void {
    this.#wakeAt = Infinity
    this.#do({ type: 'tick' })
  }

  #request(): void {
    const key = ++this.#lastKey
    this.#open.set(key, this.#current)
    this.#do({ type: 'request', key, body: RESUME })
  }

  #cutAll(): void {
    for (const [stream, line] of this.#lines) if (line.up && !line.over) this.#cut(stream, line)
  }

  #cut(stream: number, line: Line): void {
    line.over = true
    const reason = this.#random() < 0.5 ? StaticError.of('connection_error', 'The line was cut.') : undefined
    this.#do({ type: 'streamClosed', stream, reason })
  }

  #plan(ms: number, run: () => void): void {
    const at = this.#now + ms
    const place = this.#plans.findIndex((plan) => plan.at > at)
    this.#plans.splice(place < 0 ? this.#plans.length : place, 0, { at, run })
  }

  #do(input: Input<number>): void {
    for (const effect of this.#core.handle(input, this.#now)) this.#carryOut(effect)
  }

  #carryOut(effect: Effect<number>): void {
    switch (effect.type) {
      case 'pace':
        throw new Error('This profile has no clock.')
      case 'dial':
        return this.#dial(effect.stream, effect.way)
      case 'write': {
        const line = this.#lines.get(effect.stream)
        const { cells } = effect
        if (line && !line.over) this.#plan(this.#delay(line), () => this.#relayHears(effect.stream, line, cells))
        return
      }
      case 'end': {
        const line = this.#lines.get(effect.stream)
        if (line) line.over = true
        return
      }
      case 'askToken':
        this.#quietSince = this.#now
        return this.#plan(this.#random() * 1000, () => {
          const works = this.#calm || this.#random() < 0.7
          const error = StaticError.of(this.#random() < 0.5 ? 'unavailable' : 'auth_failed', 'No token.')
          if (works) this.#do({ type: 'token', jwt: 'jwt', expiresAt: this.#now + 120_000 })
          else this.#do({ type: 'tokenFailed', error })
        })
      case 'outcome':
        return this.#outcome(effect.key, effect.outcome.type)
      case 'opened':
        this.opened++
        if (this.#way === 'grpc' && effect.info.way === 'quic') this.probed++
        this.#way = effect.info.way
        this.#current = Math.max(...this.#lines.keys())
        // Everything asked before has its outcome by now.
        assert.equal(this.#open.size, 0, 'an old request outlives its session')
        return
      case 'wakeAt':
        assert.ok(effect.at < this.#wakeAt)
        this.#wakeAt = effect.at
        return
      case 'firstFailed':
        assert.fail('given up after a success')
        return
      case 'lost':
        this.#way = undefined
        return
      case 'push':
      case 'pin':
    }
  }

  #outcome(key: number, type: 'answered' | 'refused' | 'lost'): void {
    const stream = this.#open.get(key)
    assert.ok(stream !== undefined, `request ${key} has no second outcome`)
    this.#open.delete(key)
    if (type === 'lost') {
      this.lost++
      // What a stream leaves open is lost in the order in which it was asked.
      if (this.#lastOutcome.stream === stream) assert.ok(key > this.#lastOutcome.lost, 'lost out of order')
      this.#lastOutcome = { stream, lost: key }
    } else {
      this.answered++
    }
  }

  #dial(stream: number, way: Way): void {
    const line: Line = { way, joiner: new CellJoiner(1024 * 1024), up: false, over: false }
    this.#lines.set(stream, line)
    const fails = !this.#calm && (this.#random() < 0.3 * this.#roughness || (way === 'quic' && this.#isQuicBlocked))
    const hangs = fails && this.#random() < 0.3
    this.#plan(hangs ? 11_000 : this.#random() * 400, () => {
      if (fails) {
        line.over = true
        const error = StaticError.of('connection_error', 'Nobody is there.')
        return this.#do({ type: 'dialFailed', stream, error, kind: 'unreachable' })
      }
      line.up = true
      this.#do({ type: 'dialled', stream, serverName: 'relay.test' })
    })
    // A dial that is given up is no stream any more.
    if (hangs) this.#plan(10_000, () => (line.over = true))
  }

  /** The bytes of a stream arrive in order; either way may be the slower one. */
  #delay(line: Line): number {
    return line.way === this.#slow ? 40 : 20
  }

  #relayHears(stream: number, line: Line, cells: Uint8Array): void {
    if (line.over) return
    line.joiner.push(cells, ({ type, payload }) => {
      if (type === 'ping' && this.#random() < 0.95) this.#say(stream, line, makeCell('pong', payload))
      if (type !== 'envelope') return
      const message = decodeEnvelope(FORMS[line.way], ClientMessageSchema, payload.slice(), 65_536)
      this.#answer(stream, line, message)
    })
  }

  #answer(stream: number, line: Line, { requestId, body }: ClientMessage): void {
    const chance = this.#calm ? 1 : this.#random() / this.#roughness
    const error = { code: chance < 0.01 ? 'auth_failed' : 'unavailable', message: 'No.' }
    const reasons = [CloseReason.SHUTDOWN, CloseReason.EXPIRED, CloseReason.SLOW, CloseReason.NOT_ALLOWED]
    const reason = reasons[Math.floor(this.#random() * reasons.length)] ?? CloseReason.SLOW
    if (chance < 0.05) return this.#message(stream, line, requestId, { case: 'error', value: error })
    if (chance < 0.052) return this.#message(stream, line, 0n, { case: 'sessionClosing', value: { reason, error } })
    if (chance < 0.053) return this.#say(stream, line, new Uint8Array(1024).fill(99))
    switch (body.case) {
      case 'getChallenge':
        return this.#message(stream, line, requestId, {
          case: 'getChallenge',
          value: {
            nonce: new Uint8Array(32).fill(1),
            relayName: 'relay.test',
            relayId: new Uint8Array(32).fill(2),
            revision: 2,
          },
        })
      case 'openSession':
        for (const [other, older] of this.#lines) {
          if (other === stream || !older.up || older.over) continue
          const value = { reason: CloseReason.REPLACED, error: { code: 'closed', message: 'Newer.' } }
          this.#message(other, older, 0n, { case: 'sessionClosing', value })
        }
        return this.#message(stream, line, requestId, {
          case: 'openSession',
          value: { pingIntervalMs: 5000, pingTimeoutMs: 5000, expiresInMs: 120_000 },
        })
      case 'refreshSession':
        return this.#message(stream, line, requestId, { case: 'refreshSession', value: { expiresInMs: 120_000 } })
      default:
        this.#message(stream, line, requestId, { case: 'resume', value: {} })
    }
  }

  #message(stream: number, line: Line, requestId: bigint, body: BodyInit): void {
    const message = create(ServerMessageSchema, { requestId, body })
    this.#say(stream, line, cutEnvelope(encodeEnvelope(FORMS[line.way], ServerMessageSchema, message)))
  }

  /** What the relay says arrives in pieces. */
  #say(stream: number, line: Line, cells: Uint8Array): void {
    const cut = Math.floor(this.#random() * cells.length)
    for (const bytes of [cells.slice(0, cut), cells.slice(cut)]) {
      this.#plan(this.#delay(line), () => {
        if (!line.over) this.#do({ type: 'data', stream, bytes })
      })
    }
  }
}

test(`${LIVES} lives`, (t) => {
  t.diagnostic(`seed ${SEED}, ${LIVES} lives`)
  let opened = 0
  let answered = 0
  let lost = 0
  let probed = 0
  for (let life = 0; life < LIVES; life++) {
    const lived = new Life(SEED + life)
    try {
      lived.run()
    } catch (error) {
      throw new Error(`life ${life} (STATIC_SEED=${SEED + life})`, { cause: error })
    }
    opened += lived.opened
    answered += lived.answered
    lost += lived.lost
    probed += lived.probed
  }
  t.diagnostic(`${opened} sessions, ${answered} answers, ${lost} lost, ${probed} moves to QUIC`)
  assert.ok(opened > LIVES * 3 && answered > LIVES * 10 && lost > LIVES && probed > LIVES / 10, 'the lives were lively')
})

test('the same seed gives the same life', (t) => {
  const summary = (seed: number): readonly number[] => {
    const lived = new Life(seed)
    lived.run()
    return [lived.opened, lived.answered, lived.lost, lived.probed]
  }
  const replayed = Math.min(LIVES, REPLAYED)
  for (let seed = SEED; seed < SEED + replayed; seed++) assert.deepEqual(summary(seed), summary(seed))
  t.diagnostic(`promise T13: sessions: ${replayed} lives from seed ${SEED} on, each the same when run again`)
})
