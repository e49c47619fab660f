/** Tokens: before the first dial, in time for the open session, and when their source fails. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { sessionBytes, StaticError } from '@static/protocol'
import { CloseReason } from '@static/protocol/relay'
import type { CoreOptions } from '../../src/session/io.ts'
import { NONCE, RELAY_ID, Stage } from './stage.ts'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
const refused = (): StaticError => StaticError.of('auth_key_invalid', 'The key was revoked.')
const away = (): StaticError => StaticError.of('connection_error', 'The API cannot be reached.')

/** An open session for an account whose token lives so long. */
function account(lifetimeMs = HOUR_MS, options: Partial<CoreOptions> = {}): Stage {
  const stage = new Stage({ tokens: true, ...options })
  stage.do({ type: 'start' })
  stage.token(lifetimeMs)
  stage.open(1, { expiresInMs: lifetimeMs })
  stage.taken()
  return stage
}

test('a token is fetched before the first dial, and used in the opening', () => {
  const stage = new Stage({ tokens: true })
  stage.do({ type: 'start' })
  assert.deepEqual(stage.taken(), ['ask'])
  stage.advance(HOUR_MS)
  assert.deepEqual(stage.taken(), [], 'it is asked for once')
  stage.token()
  assert.deepEqual(stage.taken(), ['dial 1 grpc'])
  stage.dialled(1)
  stage.challenge(1)
  const { body } = stage.asked(1)
  assert.ok(body.case === 'openSession')
  assert.equal(body.value.jwt, 'jwt')
  stage.accept(1, { expiresInMs: HOUR_MS })
  assert.equal(stage.infos[0]?.guest, false)
})

test('after 80 % of its lifetime a token is renewed on the open session', () => {
  const stage = account(20 * MINUTE_MS)
  // 80 % would be minute 16; 5 minutes before the end is minute 15.
  stage.live(1, 15 * MINUTE_MS - 1)
  assert.deepEqual(stage.taken(), [])
  stage.advance(1)
  assert.deepEqual(stage.taken(), ['ask'])
  stage.token(HOUR_MS, 'new')
  assert.equal(stage.asked(1).body.case, 'getChallenge')
  stage.challenge(1, { nonce: new Uint8Array(32).fill(4) })
  const { body } = stage.asked(1)
  assert.ok(body.case === 'refreshSession')
  assert.equal(body.value.jwt, 'new')
  const signed = sessionBytes({
    purpose: 'refresh',
    revision: 2,
    relayName: 'relay.test',
    relayId: RELAY_ID,
    relayNonce: new Uint8Array(32).fill(4),
    agentNonce: body.value.agentNonce,
    jwtHash: new Uint8Array(hash('sha256', 'new', 'buffer')),
    traffic: 'off',
    cellsPerSecond: 0,
  })
  assert.deepEqual(stage.signed.at(-1), signed)
  stage.answer(1, { case: 'refreshSession', value: { expiresInMs: HOUR_MS } })
  stage.live(1, 48 * MINUTE_MS - 1)
  assert.deepEqual(stage.taken(), [])
  stage.advance(1)
  assert.deepEqual(stage.taken(), ['ask'], 'and again in time')
})

test("the relay's lifetime for a session takes precedence", () => {
  const stage = new Stage({ tokens: true })
  stage.do({ type: 'start' })
  stage.token(24 * HOUR_MS)
  stage.open(1, { expiresInMs: 10 * MINUTE_MS })
  stage.taken()
  stage.live(1, 5 * MINUTE_MS)
  assert.deepEqual(stage.taken(), ['ask'])
})

test('clocks that differ do not cause endless requests', () => {
  const stage = new Stage({ tokens: true })
  stage.do({ type: 'start' })
  stage.token(-HOUR_MS)
  stage.open(1, { expiresInMs: HOUR_MS })
  stage.taken()
  let asked = 0
  for (let at = 0; at < 60; at++) {
    stage.live(1, 10_000)
    if (!stage.taken().includes('ask')) continue
    asked++
    stage.token(-HOUR_MS)
    stage.challenge(1)
    stage.answer(1, { case: 'refreshSession', value: { expiresInMs: HOUR_MS } })
  }
  assert.ok(asked > 0 && asked <= 20, `${asked} times in 10 minutes`)
})

test('a challenge from another relay ends the refresh and the session', () => {
  const stage = account()
  stage.live(1, 48 * MINUTE_MS)
  stage.token()
  const before = stage.signed.length
  stage.challenge(1, { relayId: new Uint8Array(32).fill(1) })
  assert.equal(stage.signed.length, before)
  assert.equal(stage.losses[0]?.code, 'relay_changed')
})

test('a refused refresh leaves the session open and is retried after a minute', () => {
  const stage = account()
  stage.live(1, 48 * MINUTE_MS)
  stage.token()
  stage.challenge(1)
  stage.refuse(1, { code: 'auth_failed', message: 'Another account.' })
  stage.taken()
  const before = stage.line(1).requests.length
  stage.live(1, MINUTE_MS - 1000)
  assert.equal(stage.line(1).requests.length, before)
  stage.live(1, 1000)
  assert.equal(stage.line(1).requests.length, before + 1)
  assert.deepEqual(stage.losses, [])
})

test('a failing source is retried with back-off, and the session stays open', () => {
  const stage = account()
  stage.live(1, 48 * MINUTE_MS)
  assert.deepEqual(stage.taken(), ['ask'])
  for (const wait of [500, 1500, 7500, 7500, 7500]) {
    stage.do({ type: 'tokenFailed', error: away() })
    stage.live(1, wait - 1)
    assert.deepEqual(stage.taken(), [])
    stage.live(1, 1)
    assert.deepEqual(stage.taken(), ['ask'], `after ${wait} ms`)
  }
  assert.deepEqual(stage.losses, [])
})

test('a source that refuses is asked once a minute; when the session has expired, its reason is reported', () => {
  const stage = account()
  stage.live(1, 48 * MINUTE_MS)
  stage.do({ type: 'tokenFailed', error: refused() })
  stage.taken()
  stage.live(1, MINUTE_MS - 1)
  assert.deepEqual(stage.taken(), [])
  stage.live(1, 1)
  assert.deepEqual(stage.taken(), ['ask'])
  stage.do({ type: 'tokenFailed', error: refused() })
  stage.close(1, CloseReason.EXPIRED, { code: 'auth_failed', message: 'The token has run out.' })
  assert.deepEqual(stage.taken(), ['end 1', 'lost auth_key_invalid'])
  stage.advance(MINUTE_MS)
  assert.deepEqual(stage.taken(), ['ask'], 'not dialled without a token')
  stage.do({ type: 'tokenFailed', error: refused() })
  assert.deepEqual(stage.taken(), ['lost auth_key_invalid'])
  stage.advance(MINUTE_MS)
  stage.token()
  assert.deepEqual(stage.taken(), ['ask', 'dial 2 grpc'])
})

test('the source sets the retry time', () => {
  const stage = account()
  stage.live(1, 48 * MINUTE_MS)
  stage.taken()
  stage.do({ type: 'tokenFailed', error: StaticError.of('rate_limited', 'Slowly.', { retryAfter: 20 }) })
  stage.live(1, 19_999)
  assert.deepEqual(stage.taken(), [])
  stage.live(1, 1)
  assert.deepEqual(stage.taken(), ['ask'])
})

test('EXPIRED: a new token, then a new dial', () => {
  const stage = account()
  stage.close(1, CloseReason.EXPIRED, { code: 'auth_failed', message: 'The token has run out.' })
  assert.deepEqual(stage.taken(), ['end 1', 'lost auth_failed'])
  stage.advance(100)
  assert.deepEqual(stage.taken(), ['ask'])
  stage.token(HOUR_MS, 'new')
  assert.deepEqual(stage.taken(), ['dial 2 grpc'])
})

test('EXPIRED after a refresh: the token of that refresh is discarded too', () => {
  const stage = account()
  stage.live(1, 48 * MINUTE_MS)
  stage.token(HOUR_MS, 'new')
  stage.challenge(1)
  stage.answer(1, { case: 'refreshSession', value: { expiresInMs: HOUR_MS } })
  stage.close(1, CloseReason.EXPIRED, { code: 'auth_failed', message: 'The token has run out.' })
  stage.taken()
  stage.advance(100)
  assert.deepEqual(stage.taken(), ['ask'])
})

test('a redial uses the current token, unless it has less than a minute left', () => {
  const stage = account(2 * MINUTE_MS)
  stage.live(1, 58_000)
  stage.cut(1)
  stage.advance(100)
  assert.deepEqual(stage.taken().slice(-1), ['dial 2 grpc'])
  stage.advance(4000)
  stage.failDial(2)
  stage.advance(150)
  assert.deepEqual(stage.taken(), ['ask'])
})

/** The relay refuses an opening. */
function refuse(stage: Stage, stream: number, code = 'auth_failed'): void {
  stage.dialled(stream)
  stage.challenge(stream)
  stage.refuse(stream, { code, message: 'The token has expired.' })
}

test('an old token that the relay refuses is replaced at once; if it refuses the new one as well, that is reported', () => {
  const stage = account()
  stage.live(1, 20_000)
  stage.cut(1)
  stage.advance(100)
  refuse(stage, 2)
  stage.taken()
  stage.advance(200)
  assert.deepEqual(stage.taken(), ['ask'])
  stage.token(HOUR_MS, 'new')
  refuse(stage, 3)
  assert.deepEqual(stage.taken(), ['dial 3 grpc', 'end 3', 'lost auth_failed'])
})

for (const fraction of [0, 0.5, 0.999]) {
  test(`a relay with a wrong clock refuses new tokens: retried after 1 to 15 s, a token a minute (random: ${fraction})`, () => {
    const stage = account()
    stage.fraction = fraction
    // The clock of the relay is hours ahead.
    stage.close(1, CloseReason.EXPIRED, { code: 'auth_failed', message: 'The token has expired.' })
    stage.advance(200)
    const waits: number[] = []
    let asked = 0
    const began = stage.now
    for (let stream = 2; stage.now - began < 10 * MINUTE_MS; stream++) {
      const from = stage.now
      while (!stage.lines.has(stream)) {
        if (stage.taken().includes('ask')) {
          asked++
          stage.token(HOUR_MS, `token ${asked}`)
        } else stage.advance(1)
      }
      waits.push(stage.now - from)
      refuse(stage, stream)
      assert.equal(stage.losses.at(-1)?.code, 'auth_failed')
    }
    const [, ...later] = waits
    assert.ok(
      later.every((ms) => ms >= 1000 && ms <= 15_000),
      `waits of ${later.join()} ms`,
    )
    assert.ok(later.slice(4).every((ms) => ms >= 10_000))
    assert.ok(asked >= 8 && asked <= 11, `${asked} tokens in ten minutes`)
    // The clock is right again: at most 15 s later there is a session, and the next refusal is retried soon again.
    const stream = stage.lines.size + 1
    while (!stage.lines.has(stream)) {
      if (stage.taken().includes('ask')) stage.token()
      else stage.advance(1)
    }
    stage.open(stream, { expiresInMs: HOUR_MS })
    stage.live(stream, 20_000)
    stage.close(stream, CloseReason.EXPIRED, { code: 'auth_failed', message: 'The token has expired.' })
    stage.advance(200)
    stage.token()
    refuse(stage, stream + 1)
    assert.ok(stage.redial(stream + 2) <= 3000)
  })
}

test('a new token of an account that the relay refuses for good is retried once a minute', () => {
  const stage = account()
  stage.close(1, CloseReason.EXPIRED, { code: 'auth_failed', message: 'The token has expired.' })
  stage.advance(200)
  stage.token()
  refuse(stage, 2, 'account_suspended')
  stage.taken()
  stage.advance(59_900)
  assert.deepEqual(stage.taken(), [])
})

test('a relay that cannot verify the signature of a guest, because its clock has jumped, is asked again soon', () => {
  const stage = Stage.opened()
  stage.cut(1)
  stage.redial(2)
  refuse(stage, 2)
  const wait = stage.redial(3)
  assert.ok(wait >= 1000 && wait <= 3000, `${wait} ms`)
})

test('a refresh cut off by the end of the stream does not delay the next', () => {
  const stage = account()
  stage.live(1, 48 * MINUTE_MS)
  stage.token()
  stage.cut(1)
  stage.advance(100)
  stage.open(2, { expiresInMs: HOUR_MS })
  stage.taken()
  stage.live(2, 48 * MINUTE_MS)
  assert.deepEqual(stage.taken(), ['ask'])
  assert.deepEqual(stage.infos[1]?.nonce, NONCE)
})
